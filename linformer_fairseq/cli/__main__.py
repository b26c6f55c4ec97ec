"""`python -m linformer_fairseq.cli`, if the console command is not on the PATH."""

import sys

from linformer_fairseq.cli import main

sys.exit(main())
