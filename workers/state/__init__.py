"""The worker that owns `termal.sqlite`: sessions, transcripts, queues, the life of turns, the event stream."""
