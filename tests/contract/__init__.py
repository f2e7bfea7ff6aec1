"""The same bodies against our fakes of the ports and against the adapters on an emulator."""
