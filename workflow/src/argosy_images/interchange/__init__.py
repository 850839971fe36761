"""Images to and from other tools: archives written, and archives of strangers unpacked safely."""
