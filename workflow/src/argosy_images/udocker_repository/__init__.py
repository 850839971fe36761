"""The store as a repository of udocker's: its commands show and run the frozen images."""
