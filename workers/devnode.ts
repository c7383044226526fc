// Child process of the devnode: starts the node when its parent asks, on the ports it is given.
// Thread: main of its own process.
import { type DevnodeOptions, type RunningDevnode, startDevnode } from '../src/devnode/node.ts'
import { serveFrames } from '../src/threads/frames.ts'

let node: RunningDevnode | null = null

serveFrames(
  {
    start: async (options: DevnodeOptions) => {
      node = await startDevnode(options, () => process.exit(1))
      return node.addresses
    },
  },
  () => node?.stop(),
)
