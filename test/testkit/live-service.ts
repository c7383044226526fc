// The metrics product with deterministic blocks behind it, for tests of the live page.
import { systemClock } from '../../src/base/clock.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { handOutSeqs } from './fake-execution.ts'
import { LiveBlocks } from './live-blocks.ts'
import { openService, type ServiceOptions } from './metrics-service.ts'

export async function openLive(options: ServiceOptions = {}, blocks = 200) {
  const clock = options.clock ?? systemClock
  const events =
    options.eventLog ?? new EventLog({ reserve: handOutSeqs(), clock, ...options.events })
  const chain = new LiveBlocks(events, clock)
  if (blocks > 0) chain.add(blocks)
  const service = await openService({
    ...options,
    eventLog: events,
    deps: { view: chain, ...options.deps },
    // Many tabs and reloads come from one address here.
    addressLimits: { workMsPerSecond: 0, ...options.addressLimits },
  })
  // Events without frames: the source is not silent while a browser is slow, and the picture stands
  // still. Tests of silence have a clock of their own.
  const isAwake = options.clock === undefined && blocks > 0
  let timer = isAwake ? setInterval(() => chain.touch(), 500) : undefined
  return {
    ...service,
    chain,
    /** Blocks at a steady rate, as a chain makes them. */
    run: (everyMs = 200) => {
      clearInterval(timer)
      timer = setInterval(() => chain.add(), everyMs)
    },
    close: async () => {
      clearInterval(timer)
      await service.running.stop()
    },
  }
}

export type Live = Awaited<ReturnType<typeof openLive>>
