//! Asynchronous I/O with priorities for databases on Linux.
