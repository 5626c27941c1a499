"""Text: what a word is, what each file means, and models that take raw text, from the shell too."""

import bz2
import gzip
import io
import json
import lzma
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from test_cli import PROGRAM, done, refusal, table, wait_for
from typer.testing import CliRunner

import primalsvm
from primalsvm import SVC, LinearSVC, bag_of_words, certify, load, save, text_model
from primalsvm.cli import app
from primalsvm.readers import DataError
from primalsvm.text import read_texts

COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TEXTS = ["a fine film", "Fine, fine acting!", "a dull film", "it is n't fine", "", "dull. dull?"]
MOODS = np.array(["good", "good", "bad", "bad", "bad", "bad"])
TSV = "Id\tPhrase\tMood\n" + "".join(f"{k}\t{t}\t{m}\n" for k, (t, m) in enumerate(zip(TEXTS, MOODS, strict=True)))


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def model(write, tmp_path):
    """A model of texts, saved by the command line."""
    done("train", write("train.tsv", TSV), "--text", "Phrase", "--label", "Mood", "-o", tmp_path / "m.psvm", "-q")
    return tmp_path / "m.psvm"


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("do n't", ["do", "n't"]),
        ("It 's", ["it", "'s"]),
        ("Don't!", ["don't"]),
        ("don\u2019t", ["don\u2019t"]),
        ("the dogs' bone, rock'n'roll", ["the", "dogs", "bone", "rock'n'roll"]),
        ("a I 7 x_y 3.5", ["a", "i", "7", "x_y", "3", "5"]),
        (
            "na\u00efve caf\u00c9, \u4f60\u597d \u041f\u0420\u0418\u0412\u0415\u0422",
            ["na\u00efve", "caf\u00e9", "\u4f60\u597d", "\u043f\u0440\u0438\u0432\u0435\u0442"],
        ),
        ("well-made -- (yes) ... '' ' \U0001f600", ["well", "made", "yes"]),
        ("a\tb\u00a0c\u2028d\x0ce", ["a", "b", "c", "d", "e"]),
        ("", []),
    ],
)
def test_what_a_word_is(text, words):
    assert bag_of_words().build_analyzer()(text) == words


def test_features():
    texts = ["b b a", "c"]
    assert bag_of_words("binary").fit_transform(texts).toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert bag_of_words("count").fit_transform(texts).toarray().tolist() == [[1, 2, 0], [0, 0, 1]]
    rows = bag_of_words("tfidf").fit_transform(texts)
    np.testing.assert_allclose(np.sqrt(rows.multiply(rows).sum(axis=1)), 1)
    words = bag_of_words("count", ngrams=2, min_count=2).fit(["a b c", "a b", "c a"])
    assert list(words.get_feature_names_out()) == ["a", "a b", "b", "c"]
    assert bag_of_words(dtype=np.float32).fit_transform(texts).dtype == np.float32
    assert bag_of_words().fit_transform(texts).dtype == np.float64


@pytest.mark.parametrize(
    "options, words",
    [
        ({"features": "bm25"}, "features must be one of binary, count, tfidf, got 'bm25'"),
        ({"ngrams": 0}, "ngrams must be a whole number of 1 or more, got 0"),
        ({"ngrams": 1.5}, "ngrams must be"),
        ({"min_count": True}, "min_count must be"),
        ({"min_count": 0}, "min_count must be"),
    ],
)
def test_wrong_features(options, words):
    for make in (bag_of_words, text_model):
        with pytest.raises(ValueError, match=words):
            make(**options)


def test_a_text_model_is_a_pipeline():
    model = text_model(features="count").fit(TEXTS, MOODS)
    assert model[-1].certificate_.relative_gap <= 1e-3 and model.predict(["fine film"]) == ["good"]
    assert certify(model, TEXTS, MOODS).relative_gap <= 1e-3
    search = GridSearchCV(text_model(LinearSVC("hinge")), {"svm__C": [0.1, 1.0], "words__binary": [True, False]}, cv=2)
    assert search.fit(TEXTS, MOODS).best_estimator_[-1].loss == "hinge"
    assert text_model(SVC(C=9.0))[-1].C == 9.0
    assert primalsvm.text_model is text_model and "text_model" in dir(primalsvm)


def test_an_empty_text_gets_the_intercept():
    model = text_model().fit(TEXTS, MOODS)
    np.testing.assert_array_equal(model.decision_function(["", "?!", "unseen"]), np.repeat(model[-1].intercept_, 3))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", COMPRESS)
@pytest.mark.parametrize(
    "name, content",
    [
        ("a.tsv", 'id\tPhrase\tmood\n1\tsay "hi" there\t0\n\n2\t\t1\n3\t"all ""quoted"""\t 1 \n'),
        ("a.TAB", 'id\tPhrase\tmood\r\n1\tsay "hi" there\t0\r\n2\t\t1\r\n3\tall "quoted"\t1'),
        ("a.csv", 'id,Phrase,mood\n1,"say ""hi"" there",0\n2,,1\n\n3,"all ""quoted""",1\n'),
        ("a.csv", 'id;Phrase;mood\r1;"say ""hi"" there";0\r2;;1\r3;"all ""quoted""";1\r'),
        ("a.dat", '\ufeffid\tPhrase\tmood\n1\tsay "hi" there\t0\n2\t\t1\n3\tall "quoted"\t1\n'),
        ("a.txt", 'id,"Phrase",mood\n1,"say ""hi"" there",0\n2,,1\n3,"all ""quoted""",1\n'),
    ],
)
def test_tables(write, name, content, packed):
    path = write(name + packed, COMPRESS[packed](content.encode()))
    for text, label in (("Phrase", "mood"), (1, -1), ("-2", "2")):
        data = read_texts(path, text, label)
        assert data.texts == ['say "hi" there', "", 'all "quoted"'] and data.column == "Phrase"
        assert data.y.tolist() == [0.0, 1.0, 1.0] and data.y.dtype == np.float64


def test_quotes_in_tables_of_tabs(write):
    """Real phrases have stray quotes; only a cell that is quoted as a whole is one."""
    cells = ['"', '""', 'a "b', '"a" and "b"', '"a"', '"a""b"', "`` a ''", 'x"']
    path = write("a.tsv", "t\ty\n" + "".join(f"{cell}\t1\n" for cell in cells))
    assert read_texts(path, "t").texts == ['"', "", 'a "b', '"a" and "b"', "a", 'a"b', "`` a ''", 'x"']


def test_cells_of_csv_may_be_long_and_have_lines(write):
    long = "word " * 40_000
    data = read_texts(write("a.csv", f'y,t\nx,"two\r\nlines"\nz,{long}\n'), "t")
    assert data.texts == ["two\nlines", long] and data.y.tolist() == ["x", "z"]
    assert "line 4 has 1 cells" in sentence(write("b.csv", 'y,t\nx,"two\nlines"\nz\n'), "t")


def test_a_line_ends_where_it_ends(write):
    """Form feeds, U+2028 and the like are characters of a text."""
    text = "a\x0cb\u2028c\x85d\x1ce"
    assert read_texts(write("a.txt", f"{text}\nf"), label_required=False).texts == [text, "f"]
    assert read_texts(write("a.tsv", f"t\ty\n{text}\t1\n"), "t").texts == [text]
    assert read_texts(write("a.txt", "a\r\nb\rc\n\r\n"), label_required=False).texts == ["a", "b", "c", ""]
    assert read_texts(write("a.tsv", "y\tt\r\n1\ta\r\n"), "t").texts == ["a"]


def test_the_only_column_left_is_the_text(write):
    assert read_texts(write("a.csv", "label,words\n1,x y\n")).texts == ["x y"]
    data = read_texts(write("a.csv", "words\nx\n\ny\n"), label_required=False)
    assert data.texts == ["x", "", "y"] and data.y is None and data.column == "words"
    assert read_texts(write("a.csv", "t,u\nx,y\n"), "t", "mood", label_required=False).y is None


def test_plain_lines(write):
    path, labels = write("a.txt", "one\n\n three \n"), write("y.txt", "1\n2\r\n3")
    data = read_texts(path, labels=labels)
    assert data.texts == ["one", "", " three "] and data.y.tolist() == [1, 2, 3] and data.column is None
    assert read_texts(path, "lines", label_required=False).y is None
    assert read_texts(write("log", "x, y\n"), "lines", label_required=False).texts == ["x, y"]
    assert read_texts(path, labels=write("y.txt.gz", gzip.compress(b"a\nb\nc\n"))).y.tolist() == ["a", "b", "c"]


def test_a_folder_for_each_class(write, tmp_path):
    for name, content in (("b/2", "x\ny"), ("b/1.gz", gzip.compress(b"w")), ("a/1", ""), ("a/.hidden", b"\0")):
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        write(f"all/{name}", content)
    write("all/README", "no document")
    for text in (None, "files"):
        data = read_texts(tmp_path / "all", text)
        assert data.texts == ["", "w", "x\ny"] and data.y.tolist() == ["a", "b", "b"]
    write("all/b/3", b"fine\nna\xefve\n")
    assert "all: b/3: line 2 is not UTF-8; give its encoding" in sentence(tmp_path / "all")
    assert read_texts(tmp_path / "all", encoding="latin-1").texts[-1] == "fine\nna\u00efve\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1251", "koi8-r"])
def test_encodings(write, encoding):
    words = ["\u043f\u043b\u043e\u0445\u043e", "\u0434\u0430", "\u0451\u0436", "\u043d\u0435\u0442"]
    path = write("a.tsv", "t\ty\n{}\t{}\n{}\t{}\n".format(*words).encode(encoding))
    marked = encoding in ("utf-8", "utf-8-sig", "utf-16")
    for given_encoding in (None, encoding) if marked else (encoding,):
        data = read_texts(path, "t", encoding=given_encoding)
        assert data.texts == words[::2] and data.y.tolist() == words[1::2]
    if encoding == "utf-8-sig":
        assert read_texts(path, "t", encoding="utf-8").texts == words[::2]
    if not marked:
        said = "line 1 has a NUL" if encoding == "utf-16-le" else "line 2 is not UTF-8; give its encoding"
        assert said in sentence(path, "t")


def sentence(path, *args, **options):
    """What a DataError says, in one line."""
    with pytest.raises(DataError) as caught:
        read_texts(path, *args, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and message.endswith(".") and not message.endswith("..")
    assert "\n" not in message
    return message


BAD = {
    "missing column": (
        "a.tsv",
        TSV,
        ("Text", "Mood"),
        "text column 'Text', found 0 among 3 columns (Id, Phrase, Mood)",
    ),
    "position": ("a.tsv", TSV, (3, "Mood"), "text column 3, found 0 among 3"),
    "missing label": ("a.tsv", TSV, ("Phrase", "Stars"), "label column 'Stars', found 0 among 3 columns (Id, Phrase,"),
    "no label named": ("a.tsv", TSV, ("Phrase",), "one label column called label or target or class or y, found 0"),
    "no text named": ("a.tsv", TSV, (None, "Mood"), "one text column, found 2 among 3 columns (Id, Phrase, Mood); say"),
    "both": ("a.tsv", TSV, ("Mood", "Mood"), "'Mood' cannot be both text and label"),
    "twice": ("a.csv", "t,t,y\na,b,1\n", ("t",), "text column 't', found 2"),
    "short row": ("a.tsv", "t\ty\na\t1\n\nb\n", ("t",), "line 4 has 1 cells where the header has 2"),
    "long row": ("a.csv", "t,y\na,1\nb,c,2\n", ("t",), "line 3 has 3 cells where the header has 2"),
    "no label in a row": ("a.tsv", "t\ty\na\t1\nb\t \n", ("t",), "line 3, column 'y': expected a label, found ''"),
    "NaN": ("a.tsv", "t\ty\na\t1\nb\tnan\n", ("t",), "line 3, column 'y': expected a label, found 'nan'"),
    "header alone": ("a.tsv", "t\ty\n", ("t",), "expected lines below the header"),
    "nothing": ("a.tsv", "", ("t",), "expected a header and lines below it"),
    "blank": ("a.csv", "\n\n", ("t",), "expected a header and lines below it"),
    "no header": ("a.tsv", "ham\thi\nspam\tbuy\nham\tyo\n", (1, 0), "looks like a sample: its label 'ham' comes again"),
    "open quote": ("a.csv", 't,y\na,1\n"b,1\n', ("t",), "line 3 is not valid CSV"),
    "NUL": ("a.tsv", "t\ty\na\0\t1\n", ("t",), "line 2 has a NUL character"),
    "binary": ("a.npz", b"PK\x03\x04\0\0", ("t",), "line 1 has a NUL character"),
    "bytes": ("a.tsv", b"t\ty\na\t1\ncaf\xe9\t2\n", ("t",), "line 3 is not UTF-8; give its encoding, for instance"),
    "half of UTF-16": ("a.tsv", "t\ty\na\t1\n".encode("utf-16")[:-1], ("t",), "line 2 is not UTF-16"),
    "false gzip": ("a.tsv.gz", b"text", ("t",), "not compressed as its name says"),
    "no labels": ("a.txt", "a\nb\n", (), "expected labels, found plain lines; give a file with one label a line"),
    "column of lines": ("a.txt", "a\nb\n", ("t", "y"), "label column 'y', found 0 among 1 columns (a)"),
    "column of plain text": ("a.txt", "a\nb\n", (None, "y"), "a label column was given ('y'), but this is no table"),
}


@pytest.mark.parametrize("name, content, args, words", BAD.values(), ids=BAD)
def test_bad_files(name, content, args, words, write):
    assert words in sentence(write(name, content), *args)


def test_more_bad_files(write, tmp_path):
    lines = write("a.txt", "a\nb\n")
    assert "there is no such file" in sentence(tmp_path / "absent.tsv", "t")
    assert "found none" in sentence(write("empty.txt", ""), label_required=False)
    assert "no encoding 'utf-9' is known" in sentence(lines, encoding="utf-9", label_required=False)
    assert "no encoding 'base64' is known" in sentence(lines, encoding="base64", label_required=False)
    assert "line 2 is not ASCII; give its own" in sentence(
        write("b.txt", "a\né"), encoding="ascii", label_required=False
    )
    assert "not in npz; leave --format out" in sentence(lines, "t", format="npz")
    assert read_texts(write("c.txt", "t\ty\na,b\t1\n"), "t", format="tsv").texts == ["a,b"]
    assert "leave --labels out" in sentence(write("a.tsv", TSV), "Phrase", labels=lines)
    (tmp_path / "bare").mkdir()
    assert "a sub-folder for each class" in sentence(tmp_path / "bare")
    assert "no table with a column 't'; say --text files" in sentence(tmp_path / "bare", "t")
    (tmp_path / "bare" / "x" / "y").mkdir(parents=True)
    assert "x/y: expected a file, found a folder" in sentence(tmp_path / "bare")
    for content, words in (("1\n", "expected 2 labels"), ("1\n\n", "line 2: expected a label")):
        with pytest.raises(DataError, match=f"y.txt: {words}"):
            read_texts(lines, labels=write("y.txt", content))


@pytest.mark.skipif("PRIMALSVM_DATA" not in os.environ, reason="PRIMALSVM_DATA is not set")
def test_the_phrases():
    path = Path(os.environ["PRIMALSVM_DATA"]) / "rotten_tomatoes" / "train.tsv.xz"
    data = read_texts(path, "Phrase", "Sentiment")
    assert len(data.texts) == 156060 and data.texts[-1] == "chortles"
    assert np.unique(data.y, return_counts=True)[1].tolist() == [7072, 27273, 79582, 32927, 9206]


# --- the command line -------------------------------------------------------------------------------------------------


def answer(*args, text="", code=0):
    """Run a command with this text as stdin."""
    content = text if isinstance(text, bytes) else text.encode()
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=content)
    assert result.exit_code == code, result.stderr
    return result


def test_train_says_how_many_words(write, tmp_path):
    path = write("train.tsv", TSV)
    rows = table(done("train", path, "--text", "Phrase", "--label", "Mood", "--test", path, "-o", tmp_path / "m.psvm"))
    assert (rows["rows"], rows["words"], rows["classes"]) == ("6", "8", "2: bad (4), good (2)")
    assert "features" not in rows and rows["train error"] == rows["test error"] == "0.00%"
    model = load(tmp_path / "m.psvm")
    wanted = text_model(LinearSVC(n_jobs=1)).fit(TEXTS, MOODS)
    assert model[-1].get_params() == wanted[-1].get_params() and model[0].get_params() == wanted[0].get_params()
    assert model.decision_function(TEXTS).tobytes() == wanted.decision_function(TEXTS).tobytes()
    assert list(model.feature_names_in_) == ["Phrase"] and rows["certificate"] == str(model[-1].certificate_)


def test_train_takes_every_option_of_text(write, tmp_path):
    path, out = write("train.tsv", TSV.encode("utf-16-le")), tmp_path / "m.psvm"
    options = ["--features", "tfidf", "--ngrams", "2", "--min-count", "2", "--encoding", "utf-16-le", "--format", "tsv"]
    for more in ([], ["--kernel", "rbf", "--memory-limit", "1G", "--C", "3"]):
        report = json.loads(done("train", path, "--text", 1, "--label", 2, *options, *more, "-o", out, "--json").stdout)
        model = load(out)
        words = bag_of_words("tfidf", ngrams=2, min_count=2)
        assert model[0].get_params() == words.get_params() and report["words"] == len(model[0].vocabulary_) == 4
        X = words.fit_transform(TEXTS)
        assert model[0].transform(TEXTS).toarray().tobytes() == X.toarray().tobytes()
        assert isinstance(model[-1], SVC if more else LinearSVC)
        assert done("predict", out, path, "--label", "Mood", "--encoding", "utf-16-le").stdout.split() == [
            *model.predict(TEXTS)
        ]


def test_predict_takes_raw_text_from_a_pipe(model):
    result = answer("predict", model, "-", text="a FINE acting\ndull\n\nquite unseen\n")
    assert result.stdout == "good\nbad\nbad\nbad\n"
    assert result.stderr == "note: stdin: 2 of 4 texts have no word that the model knows\n"
    result = answer("predict", model, "-", "--scores", text="fine film")
    label, score = result.stdout.split("\t")
    assert label == "good" and float(score) == load(model).decision_function(["fine film"])[0] and result.stderr == ""
    assert "stdin: line 2 is not UTF-8" in answer("predict", model, "-", text=b"a\n\xff\n", code=1).stderr
    assert answer("predict", model, "-", "--encoding", "latin-1", text=b"fine \xe9t\xe9").stdout == "good\n"
    assert "error: stdin: expected one document a line" in answer("predict", model, "-", code=1).stderr


def test_a_terminal_is_told_what_to_type(model):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "predict", model, "-"], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    ) as run:
        os.close(theirs)
        try:
            wait_for(b"one text a line, please; Ctrl-D ends them", ours)
            os.write(ours, b"fine film\n\x04")
            assert run.communicate(timeout=60)[0] == b"good\n"
        finally:
            run.kill()
            os.close(ours)


def test_predict_finds_the_column_again(model, write, tmp_path):
    expected = "good\ngood\nbad\nbad\nbad\nbad\n"
    renamed = TSV.replace("Phrase", "Words")
    for name, content, options in (
        ("new.tsv", TSV, []),
        ("new.csv", "Mood,Phrase\n" + "".join(f'x,"{text}"\n' for text in TEXTS), []),
        ("new.dat", TSV, []),  # a header with the column makes it a table
        ("new.txt", TSV, []),
        ("new.tsv", renamed, ["--text", "Words"]),
        ("new.tsv", renamed, ["--text", "1"]),
        ("new.txt", "\n".join(TEXTS), []),
        ("new.log", "\n".join(TEXTS), ["--text", "lines"]),
    ):
        assert done("predict", model, write(name, content), *options).stdout == expected, (name, options)
    message = refusal("predict", model, write("new.tsv", renamed))
    assert (
        "expected one text column 'Phrase', found 0 among 3 columns (Id, Words, Mood); say which with --text" in message
    )
    path = tmp_path / "new.tsv"
    assert refusal("predict", model, path, "--format", "npz").startswith(f"error: {path}: text comes in csv, tsv")
    assert "there is no such file; check the path." in refusal("predict", model, tmp_path / "absent")
    wrong = TSV.replace("\tgood", "\tbad")
    result = done("predict", model, write("w.tsv", wrong), "--label", "Mood", "-o", tmp_path / "labels")
    assert result.stderr.endswith("error rate 33.33% (2 of 6)\n") and (tmp_path / "labels").read_text() == expected


def test_probabilities(write, tmp_path):
    path = write("train.tsv", TSV + TSV.partition("\n")[2] * 5)
    options = ["--text", "Phrase", "--label", "Mood", "--probability", "sigmoid"]
    done("train", path, *options, "-o", tmp_path / "m.psvm")
    lines = answer("predict", tmp_path / "m.psvm", "-", "--proba", text="fine\ndull\n").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["good", "bad"]
    assert all(sum(map(float, line.split("\t")[1:])) == pytest.approx(1) for line in lines)


def test_tune_takes_text(write, tmp_path):
    path = write("train.tsv", TSV + TSV.partition("\n")[2] * 5)
    options = ["--text", "Phrase", "--label", "Mood", "--C", "0.1,1", "--features", "count", "--ngrams", "2"]
    report = json.loads(done("tune", path, *options, "--test", path, "-o", tmp_path / "m.psvm", "--json").stdout)
    model = load(tmp_path / "m.psvm")
    assert report["words"] == len(model[0].vocabulary_) and model[0].ngram_range == (1, 2) and not model[0].binary
    assert report["test_error"] == 0 and model[-1].C in (0.1, 1.0) and list(model.feature_names_in_) == ["Phrase"]
    assert answer("predict", tmp_path / "m.psvm", "-", text="a fine film").stdout == "good\n"


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_certify_takes_text(kernel, write, tmp_path):
    path = write("train.tsv", TSV)
    done("train", path, "--text", "Phrase", "--label", "Mood", "--kernel", kernel, "-o", tmp_path / "m.psvm")
    rows = table(done("certify", tmp_path / "m.psvm", path, "--label", "Mood"))
    proof = load(tmp_path / "m.psvm")[-1].certificate_
    assert float(rows["primal"]) == pytest.approx(proof.primal, rel=1e-8) and rows["words"] == "8"
    message = refusal("certify", tmp_path / "m.psvm", path)
    assert "expected one label column called label" in message


def test_plain_files_and_folders_from_the_shell(write, tmp_path):
    path, labels, out = write("a.txt", "\n".join(TEXTS)), write("y.txt", "\n".join(MOODS)), tmp_path / "m.psvm"
    rows = table(
        done("train", path, "--text", "lines", "--labels", labels, "--test", path, "--test-labels", labels, "-o", out)
    )
    assert rows["test error"] == "0.00%" and not hasattr(load(out), "feature_names_in_")
    assert "error rate 0.00% (0 of 6)" in done("predict", out, path, "--labels", labels).stderr
    assert done("predict", out, write("one.csv", "any\nfine film\n")).stdout == "good\n"
    assert "found 3 among 3 columns" in refusal("predict", out, write("three.tsv", TSV))
    for k, (text, mood) in enumerate(zip(TEXTS, MOODS, strict=True)):
        (tmp_path / "all" / mood).mkdir(parents=True, exist_ok=True)
        write(f"all/{mood}/{k}.txt", text)
    done("train", tmp_path / "all", "--text", "files", "-o", out)
    result = done("predict", out, tmp_path / "all")
    assert result.stdout == "bad\n" * 4 + "good\n" * 2 and "error rate 0.00% (0 of 6)" in result.stderr


BAD_USE = {
    "features": (["--features", "count"], "--features goes with text; say which column has it with --text"),
    "ngrams": (["--ngrams", "2"], "--ngrams goes with text"),
    "min-count": (["--min-count", "2"], "--min-count goes with text"),
    "encoding": (["--encoding", "utf-8"], "--encoding goes with text"),
    "no ngrams": (["--text", "Phrase", "--label", "Mood", "--ngrams", "0"], "ngrams must be a whole number of 1"),
    "rare words": (["--text", "Phrase", "--label", "Mood", "--min-count", "9"], "no word is in 9 documents or more"),
    "format": (["--text", "Phrase", "--label", "Mood", "--format", "svmlight"], "not in svmlight; leave --format out"),
    "labels": (["--text", "Phrase", "--labels", "y.txt"], "leave --labels out"),
    "one class": (["--text", "Phrase", "--label", "One"], "two classes or more"),
    "no words": (
        ["--text", "Marks", "--label", "Mood"],
        "found no word in 6 documents; is this the column of the text?",
    ),
}


@pytest.mark.parametrize("options, words", BAD_USE.values(), ids=BAD_USE)
def test_bad_use(options, words, write, tmp_path):
    lines = TSV.splitlines()
    path = write("a.tsv", "\n".join([lines[0] + "\tOne\tMarks", *(line + "\t1\t?!" for line in lines[1:])]))
    for command in ("train", "tune"):
        assert words in refusal(command, path, *options, "-o", tmp_path / "m.psvm")
    assert not (tmp_path / "m.psvm").exists()


def test_options_that_do_not_go_with_a_model(model, write, tmp_path):
    path = write("new.tsv", TSV)
    limit = ["--memory-limit", "1G"]
    assert "text is read as a whole" in refusal("train", path, "--text", "Phrase", "--label", "Mood", *limit)
    assert "one of texts has all rows in memory" in refusal("predict", model, path, *limit)
    numbers = write("a.svm", "1 1:1\n-1 2:1\n")
    done("train", numbers, "-o", tmp_path / "n.psvm")
    for command in ("predict", "certify"):
        assert "--text goes with a model of texts" in refusal(command, tmp_path / "n.psvm", numbers, "--text", "t")
        assert "--encoding goes with a model" in refusal(command, tmp_path / "n.psvm", numbers, "--encoding", "ascii")
    liblinear = write("l.model", "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n1 \n")
    assert "--text goes with a model" in refusal("certify", liblinear, numbers, "--C", "1", "--text", "t")


# --- any text at all --------------------------------------------------------------------------------------------------

ANY = st.lists(st.text(st.characters(exclude_characters="\0"), max_size=30), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Models with every kind of feature, and what their files give back."""
    folder = tmp_path_factory.mktemp("kept")
    models = [
        text_model(SVC() if f == "count" else None, f, ngrams=2).fit(TEXTS, MOODS) for f in ("binary", "count", "tfidf")
    ]
    for k, model in enumerate(models):
        save(model, folder / str(k))
    return [(model, load(folder / str(k))) for k, model in enumerate(models)]


@settings(deadline=None)
@given(ANY)
def test_any_text_is_answered_and_a_loaded_model_agrees(kept, texts):
    for model, again in kept:
        assert set(model.predict(texts)) <= {"good", "bad"}
        assert again.decision_function(texts).tobytes() == model.decision_function(texts).tobytes()


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n\ufeff"), max_size=20)))
def test_lines_come_back_as_they_were_written(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / f"lines-{os.getpid()}.txt"
    path.write_bytes("".join(text + "\n" for text in texts).encode())
    assert not texts or read_texts(path, label_required=False).texts == texts


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=20), min_size=1))
def test_csv_comes_back_as_the_csv_module_writes_it(tmp_path_factory, texts):
    import csv

    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["y", "t"], *([k, text] for k, text in enumerate(texts))])
    path = tmp_path_factory.getbasetemp() / f"table-{os.getpid()}.csv"
    path.write_bytes(stream.getvalue().encode())
    data = read_texts(path, "t")
    assert data.texts == texts and data.y.tolist() == list(range(len(texts)))


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory, raw):
    for name in ("b.tsv", "b.csv", "b.txt", "b"):
        path = tmp_path_factory.getbasetemp() / f"{os.getpid()}-{name}"
        path.write_bytes(b"t\ty\n" + raw)
        for encoding in (None, "latin-1", "utf-16"):
            try:
                assert read_texts(path, "t", encoding=encoding, label_required=False).texts
            except DataError as error:
                assert "\n" not in str(error)


def test_scikit_learns_own_pattern_drops_the_negation():
    """Why bag_of_words has its own."""
    assert "n't" not in CountVectorizer().fit(["do n't"]).vocabulary_
    assert TfidfVectorizer().token_pattern != bag_of_words("tfidf").token_pattern
    assert bag_of_words().token_pattern == sys.modules["primalsvm.text"].WORDS
