// The metrics product with a Solana chain and products that a test sets by hand, for its page.
import { openService, type ServiceOptions } from './metrics-service.ts'
import { HandSolana, productMeters, workASecond } from './solana-view.ts'

export async function openSolana(options: ServiceOptions = {}, blocks = 60) {
  const view = new HandSolana(blocks)
  const of = productMeters()
  workASecond(of)
  const service = await openService({
    ...options,
    deps: { solana: view, meters: of.meters, ...options.deps },
    // Many tabs and reloads come from one address here.
    addressLimits: { workMsPerSecond: 0, ...options.addressLimits },
  })
  let timers: NodeJS.Timeout[] = []
  const stand = () => {
    for (const timer of timers) clearInterval(timer)
    timers = []
  }
  return {
    ...service,
    view,
    of,
    /** Blocks and work at a steady rate. */
    run: () => {
      timers.push(setInterval(() => view.add(), 250))
      timers.push(setInterval(() => workASecond(of), 1_000))
    },
    stand,
    close: async () => {
      stand()
      await service.running.stop()
    },
  }
}

export type SolanaService = Awaited<ReturnType<typeof openSolana>>
