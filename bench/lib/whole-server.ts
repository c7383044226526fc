// The whole server as a process of its own, on free ports and a fresh data folder, with one token.
// Thread: main of the bench process.
import { setTimeout as sleep } from 'node:timers/promises'
import { provision, type Server, startServer } from '../../test/testkit/server.ts'

export interface WholeServer extends Pick<Server, 'data' | 'doors' | 'token'> {
  readonly pid: number
  stop(): Promise<void>
}

export interface WholeServerOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Flags of `sluice subscription add`; null adds none, and there is no token. */
  readonly subscription?: readonly string[] | null
}

const unlimited = ['--product=bundle', '--plan=unlimited']
/** The server knows a new subscription within it. */
const knownMs = 1_000

/** With a subscription without limits, unless other flags are given. */
export async function startWholeServer(
  flags: readonly string[],
  { env = {}, subscription = unlimited }: WholeServerOptions = {},
): Promise<WholeServer> {
  const { data, doors, child, dispose: stop } = await startServer({ flags, env, isWhole: true })
  const started = { pid: child.pid!, data, doors, stop, token: '' }
  if (subscription === null) return started
  const { token } = await provision(data, 'bench', ...subscription)
  await sleep(knownMs)
  return { ...started, token }
}
