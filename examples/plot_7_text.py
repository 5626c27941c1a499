"""
What each word says
===================

A bag of words and a linear model: the score of a phrase is the sum of its words' weights and the intercept, and nothing
else. So the model can be asked why.
"""

import matplotlib.pyplot as plt

from primalsvm import LinearSVC, contributions, text_model
from primalsvm.explain_display import ContributionsDisplay, WeightsDisplay

GOOD = """a truly moving film
warm and funny from start to finish
a smart script and fine acting
one of the best films of the year
the acting is wonderful and the ending moving
a fresh and charming comedy
beautiful pictures and a clever story
funny and never dull
a gripping story with a fine cast
not a dull moment
this is a great film
charming and warm"""
BAD = """a dull and lifeless film
the script is weak and the jokes are stale
one of the worst films of the year
slow and never funny
a tired story with a wooden cast
not funny and not moving
the ending is a mess
stale jokes and a boring plot
this is a boring film
the acting is wooden and the story tired
a waste of a fine cast
weak and forgettable"""
texts = GOOD.splitlines() + BAD.splitlines()
labels = ["good"] * len(GOOD.splitlines()) + ["bad"] * len(BAD.splitlines())

model = text_model(LinearSVC(C=1.0)).fit(texts, labels)
print(model[-1].certificate_)
WeightsDisplay.from_estimator(model, k=7)
plt.show()

# %%
# The same for a phrase that it has never seen. "dull" counts as praise here: two of the good phrases deny it, and a bag
# of single words cannot see that. The explanation shows what the score alone would hide.

print(contributions(model, "not a dull story, and the cast is charming"))
ContributionsDisplay.from_estimator(model, "not a dull story, and the cast is charming")
plt.show()
