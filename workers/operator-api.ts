// Child process of the server: the operator API over HTTP, opened and closed over the pipe.
// Thread: main of its own process.
import { serveFrames } from '../src/base/threads/frames.ts'
import { closeApi, openApi } from '../src/operator/api/server.ts'

serveFrames({ open: openApi }, closeApi)
