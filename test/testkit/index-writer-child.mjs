// A writer of rows without streams to read: it takes what it is sent, and is made to be killed.
import { serveFrames } from '../../dist/src/base/threads/frames.js'
import { IndexWriter, openSink } from '../../dist/src/indexer/writer.js'

const writer = new IndexWriter(openSink, { wrote() {}, failed() {}, parts() {} })

serveFrames(
  { open: (place) => writer.open(place), take: (delivery) => writer.take(delivery) },
  () => writer.stop(),
)
