"""Files on servers: hubs, web servers and buckets as sources that the reader understands.

    open            `open_remote` gives the source of an address; `pinned_folder` lists a folder of a hub
    addresses       addresses, parsed
    hub             a file of a hub, or its copy in the cache of the hub's client
    http_source     a file of a web server or a hub, read in ranges
    transport       requests: redirects, budget, connections to allowed networks until a deadline
    bucket_source   an object of a bucket, through fsspec
    policy          the limits of bytes, requests, seconds and networks

    open -> addresses, hub -> http_source -> transport -> policy
         -> bucket_source  -> http_source

Nothing here is imported before an address is named, and the HTTP library only when a request is made.
"""
