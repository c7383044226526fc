// Ten seeds of a cluster behind a gateway, half of them under Alpenglow.
import { expect, it } from 'vitest'
import { runBox } from '../testkit/cluster-box.ts'
import { isSlice } from '../testkit/slice.ts'

const seeds = isSlice ? 1 : 10

it.each(Array.from({ length: seeds }, (_, index) => index + 1))(
  'confirms exactly the chain with seed %i',
  async (seed) => {
    const flags = seed % 2 === 0 ? ['--alpenglow'] : []
    const { chain, grpc, rpc, index } = await runBox(seed, 60, ...flags)
    expect(chain.length).toBeGreaterThan(40)
    expect(grpc).toEqual(chain)
    expect(rpc).toEqual(chain)
    expect(index).toEqual(chain)
  },
)
