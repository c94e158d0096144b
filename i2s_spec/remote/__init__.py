"""Files on servers: hubs, web servers and buckets as sources that the reader understands.

`addresses` parses addresses, `policy` defines the limits of requests, `open_remote` gives the source. Nothing here is
imported before an address is named, and the HTTP library only when a request is made.
"""
