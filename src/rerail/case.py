"""A case: what a failed, hung or slow job left behind, in one folder. The evidence bundle of an incident is such a folder, so the
verdict of a live incident can be had again offline by `rerail diagnose FOLDER`."""
