"""Files on servers: hubs, web servers and buckets as sources that the reader understands.

`addresses` says what an address means, `policy` what may be asked of a server, `open_remote` gives the source. Nothing here
is imported before an address is named, and the HTTP library only when a server is asked.
"""
