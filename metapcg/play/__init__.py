"""The page on which a person fights the boss: a local server and a page in plain JavaScript.

=============== ====================================================================================
module          holds
=============== ====================================================================================
``replays``     a fight as its seed and both sides' actions, and the check that a log is such a fight
``journal``     the file that every fight goes to before it counts; one fsync for many fights
``store``       players, each with a learner, kept in a folder
``matches``     the fight in progress: the rules and the boss's choices, on the server's side
``words``       turns and updates in plain sentences
``app``         the web application: which request may do what
``command``     the command ``play``
``static/``     the page itself
=============== ====================================================================================

**What is kept, and what can be lost.** The answer to ``POST /learn`` is sent after the fight's record is on the disk
(fsync). So whatever ends the server - ``kill -9``, a power cut - every fight that was answered is there after the next
start, and the boss is bit for bit the one that it was. Lost is the fight being played, and the one whose answer had not
been sent may be lost or not; the page keeps that one, sends it again, and it counts once.

**Whose boss.** A player is known by a token of 256 random bits, sent in a header and stored as its hash only. Nothing a
request says but the token chooses the learner that is read or changed.

Needs ``pip install 'metapcg[play]'``: Starlette, uvicorn and filelock; neither torch nor numba is imported.
"""
