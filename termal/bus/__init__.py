"""ZeroMQ sockets: loops, server, client, publisher, subscriber. The only importer of zmq."""
