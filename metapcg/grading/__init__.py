"""The trusted side of nbgrader: notebooks are built, released and checked here."""
