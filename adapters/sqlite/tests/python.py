"""What a user of Python's own sqlite3 does with the extension. Arguments: the extension, a folder."""

import os
import signal
import sqlite3
import sys
import threading

extension, folder = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(extension)

path = os.path.join(folder, "db")
uri = f"file:{path}?vfs=pagewell&pw_cache=4M"
db = sqlite3.connect(uri, uri=True)
assert db.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)")
with db:
    db.executemany("INSERT INTO t VALUES(?, ?)", ((i, os.urandom(200)) for i in range(50_000)))
try:
    with db:
        db.execute("DELETE FROM t")
        raise KeyError
except KeyError:
    pass

failures = []


def read(seed):
    try:
        mine = sqlite3.connect(uri, uri=True)
        for i in range(2000):
            (size,) = mine.execute("SELECT length(body) FROM t WHERE id = ?", ((i * seed) % 50_000,)).fetchone()
            assert size == 200, size
        mine.close()
    except Exception as failure:  # told by the main thread
        failures.append(failure)


threads = [threading.Thread(target=read, args=(seed,)) for seed in (7, 11, 13, 17)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures

copy = sqlite3.connect(f"file:{folder}/copy?vfs=pagewell", uri=True)
db.backup(copy)
assert copy.execute("SELECT count(*) FROM t").fetchone() == (50_000,)
assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
for wrong in ("pw_cache=x", "pw_nothing=1"):
    try:
        sqlite3.connect(f"file:{folder}/none?vfs=pagewell&{wrong}", uri=True)
    except sqlite3.OperationalError as error:
        assert "unable to open" in str(error), error
    else:
        raise AssertionError(wrong)
copy.close()

# Signals that the only thread of the program has blocked are pending: no thread of the extension
# takes them.
signal.signal(signal.SIGUSR1, lambda *_: failures.append("handled"))
waited_for = {signal.SIGTERM, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
with db:
    db.execute("UPDATE t SET body = zeroblob(200) WHERE id < 1000")
for number in waited_for:
    os.kill(os.getpid(), number)
with db:
    db.execute("UPDATE t SET body = zeroblob(200) WHERE id < 1000")
assert {signal.sigtimedwait(waited_for, 0).si_signo for _ in waited_for} == waited_for
signal.pthread_sigmask(signal.SIG_UNBLOCK, waited_for)
assert not failures, failures

# A child made by fork has its parent's connections. They fail there; its own databases are as
# everywhere.
child = os.fork()
if child == 0:
    code = 0
    try:
        db.execute("INSERT INTO t VALUES(NULL, 'of the child')")
        db.commit()
        code = 1
    except sqlite3.OperationalError as error:
        code = 0 if "I/O" in str(error) else 2
    try:
        sqlite3.connect(uri, uri=True).execute("SELECT count(*) FROM t")
        code = 3
    except sqlite3.OperationalError as error:
        code = code or (0 if "locked" in str(error) else 4)
    own = sqlite3.connect(f"file:{folder}/own?vfs=pagewell", uri=True)
    own.execute("CREATE TABLE t(a)")
    own.close()
    db.close()
    os._exit(code)
assert os.waitpid(child, 0)[1] == 0
with db:
    db.execute("INSERT INTO t VALUES(NULL, 'of the parent')")
assert db.execute("SELECT count(*) FROM t WHERE body = 'of the child'").fetchone() == (0,)
with db:
    db.execute("DELETE FROM t WHERE body = 'of the parent'")

# One statement in two threads: a page may be fetched in one and given back in another.
shared = sqlite3.connect(uri, uri=True, check_same_thread=False)
rows = shared.execute("SELECT length(body) FROM t")
for _ in range(8):
    thread = threading.Thread(target=lambda: [rows.fetchone() for _ in range(100)])
    thread.start()
    thread.join()
rows.close()
shared.close()
db.close()

# By SQLite's own VFS afterwards.
plain = sqlite3.connect(path)
assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
assert plain.execute("SELECT count(*) FROM t").fetchone() == (50_000,)
print("done", sqlite3.sqlite_version)
