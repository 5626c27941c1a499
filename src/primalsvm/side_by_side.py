"""Several solves on several threads, and Ctrl-C for all of them."""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any


def run_all(run: Callable[[int], Any], n: int, jobs: int, interrupted: threading.Event) -> list[Any]:
    """run(0), ..., run(n - 1) on so many threads. Ctrl-C sets `interrupted`, upon which every run ends soon."""
    if jobs == 1:
        results = []
        for k in range(n):
            results.append(run(k))
            if results[-1].status == "interrupted":
                interrupted.set()
        return results
    with ThreadPoolExecutor(jobs) as pool:
        futures: list[Future[Any]] = []
        try:
            for k in range(n):
                futures.append(pool.submit(run, k))
            _, rest = wait(futures, return_when=FIRST_EXCEPTION)
            if rest:  # one has failed: no need to solve the others before saying so
                interrupted.set()
                for future in futures:
                    future.cancel()
                futures = [future for future in futures if not future.cancelled()]
        except KeyboardInterrupt:
            interrupted.set()
        results = [future.result() for future in futures]
        results += [run(k) for k in range(len(futures), n)]  # what Ctrl-C kept from starting
        if any(result.status == "interrupted" for result in results):
            interrupted.set()
        return results
