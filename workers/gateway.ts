// Child process of a hub: one gateway, started and stopped over the pipe.
// Thread: main of its own process.
import { serveFrames } from '../src/base/threads/frames.ts'
import {
  customerMeters,
  gatewayMeters,
  refreshDrained,
  startGateway,
  stopGateway,
} from '../src/operator/topology/service.ts'

const reads = { meters: gatewayMeters, customers: customerMeters }
serveFrames({ start: startGateway, drained: refreshDrained, ...reads }, stopGateway)
