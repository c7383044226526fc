// Child process of a hub: one gateway, started and stopped over the pipe.
// Thread: main of its own process.
import { serveFrames } from '../src/base/threads/frames.ts'
import {
  customerMeters,
  drainNode,
  gatewayMeters,
  startGateway,
  stopGateway,
} from '../src/operator/topology/service.ts'

const reads = { meters: gatewayMeters, customers: customerMeters }
serveFrames({ start: startGateway, drain: drainNode, ...reads }, stopGateway)
