"""`make demo`: tells the story of one fault, and leaves nothing running."""

import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing runs yet: a Ctrl-C now ends this process alone, without a stack trace
    from demo.performance import main

    sys.exit(main())
