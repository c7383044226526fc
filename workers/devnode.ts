// Child process of the devnode: starts the node on its parent's request, on the given ports.
// Thread: main of its own process.
import { exitNow, exitOnBug } from '../src/base/exit.ts'
import { serveFrames } from '../src/base/threads/frames.ts'
import { type DevnodeOptions, type RunningDevnode, startDevnode } from '../src/devnode/node.ts'
import { forwardedLog } from '../src/devnode/reports.ts'
import type { ShredTarget } from '../src/devnode/shred-feed.ts'

// Its supervisor starts another one.
exitOnBug()

let node: RunningDevnode | null = null

const parent = serveFrames(
  {
    start: async (options: DevnodeOptions) => {
      node = await startDevnode(options, {
        log: forwardedLog((line) => parent.push('log', line)),
        report: (stats) => parent.push('stats', stats),
        onDown: () => exitNow(1),
      })
      return node.addresses
    },
    sendShreds: (target: ShredTarget) => node?.sendShreds(target),
  },
  () => node?.stop(),
)
