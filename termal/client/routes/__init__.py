"""The daemon's routes, one function each: arguments in, the `termal.client.call.Call` to run out. No I/O."""
