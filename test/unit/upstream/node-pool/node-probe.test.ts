// What a node's reply to probes may be: whatever it sends, its probe ends.
import { describe, expect, it, vi } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { NodeProbe } from '../../../../src/upstream/node-pool/node-probe.ts'
import { UpstreamSet } from '../../../../src/upstream/node-pool/upstream-set.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'
import { setSection } from '../../../testkit/upstream-sections.ts'

/** The state of a node after one probe, to which it replies with this text. */
async function stateAfter(body: string): Promise<string> {
  const clock = new FakeClock()
  const section = setSection([{}])
  const set = new UpstreamSet('main', section, { clock, log: silentLog })
  const node = set.nodes[0]!
  const response = Promise.resolve({ ok: true as const, status: 200, body })
  vi.spyOn(node.http!, 'request').mockReturnValue({ response } as never)
  const owner = { compare() {}, observeBlock() {}, hasOther: () => false }
  await new NodeProbe(node, clock, owner).probe()
  set.stop()
  return node.state
}

describe('a reply to a probe', () => {
  it('is read', async () => {
    expect(await stateAfter('[{"id":1,"result":"ok"},{"id":2,"result":7}]')).toBe('up')
  })

  it('may have any number of elements, of any kind: no more are read than were asked for', async () => {
    for (const element of ['{}', '5'])
      expect(await stateAfter(`[${Array(200_000).fill(element).join()}]`), element).toBe('up')
  })
})
