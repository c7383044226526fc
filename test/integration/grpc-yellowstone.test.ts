// An unmodified yellowstone client against the endpoint, on its own chain and in front of a node.
import { describe } from 'vitest'
import { RelayStage } from '../testkit/geyser-relay.ts'
import { GrpcStage } from '../testkit/grpc-stage.ts'
import { yellowstoneFlow } from '../testkit/yellowstone-flow.ts'

describe('@triton-one/yellowstone-grpc', () => {
  yellowstoneFlow(async () => {
    const stage = await GrpcStage.open()
    return {
      target: stage.target,
      token: stage.provision().token,
      publish: async (updates) => stage.publish(updates),
      close: () => stage.close(),
    }
  })
})

describe('@triton-one/yellowstone-grpc in front of a node', () => {
  yellowstoneFlow(async () => {
    const node = await GrpcStage.open()
    const relay = await RelayStage.before(node)
    return {
      target: relay.endpoint.target,
      token: relay.endpoint.provision().token,
      async publish(updates) {
        node.publish(updates)
        await relay.caughtUp(updates)
      },
      async close() {
        await relay.close()
        await node.close()
      },
    }
  })
})
