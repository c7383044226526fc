// `sluice devnode`: a local Solana node for tests, without token and quota.
// The node runs in a child process, so that an abort of native code costs a restart, not the node.
import { join, resolve } from 'node:path'
import { formatAddress, isLoopback } from '../../base/cidr.ts'
import { systemClock } from '../../base/clock.ts'
import { accept, Fault, type Outcome, refuse } from '../../base/errors.ts'
import { exitNow } from '../../base/exit.ts'
import { openLog } from '../../base/telemetry/open-log.ts'
import { parseEndpoint } from '../../customers/subscriptions/destination.ts'
import { lockData } from '../../customers/subscriptions/lock.ts'
import type { DevnodeAddresses, DevnodeOptions } from '../../devnode/node.ts'
import type { NodeAddresses } from '../../devnode/node-set.ts'
import type { Config } from '../config/config.ts'
import { urlOf } from './banner.ts'
import {
  agaveOf,
  clusterOf,
  defaultPorts,
  devnodeFlags,
  foreignFlags,
  genesisOf,
  lamportsOf,
  slotMsOf,
  warpSlotOf,
} from './devnode-flags.ts'
import { type Call, flagOf, hasSwitch, misuse, numberOf, type Verb } from './verb.ts'
import { packageVersion } from './version.ts'

const defaultHost = '127.0.0.1'
const shredVersion = 1

export const devnodeVerb: Verb = {
  words: ['devnode'],
  summary: 'Run a local Solana node for tests: RPC, PubSub and geyser, no token.',
  examples: [
    'devnode --reset --traffic 10',
    'devnode --rpc-port 9899 --quiet',
    'devnode --nodes 4 --seed 7 --traffic 20',
  ],
  flags: devnodeFlags,
  foreignFlags,
  async run(call) {
    const options = optionsOf(call)
    if (!options.ok) return options
    const log = openLog(call.loaded.config.logLevel)
    const locked = await lockData(resolve(options.value.ledger, '..'))
    if (!locked.ok) return locked
    const ended = new Promise<number>((end) => {
      process.once('SIGINT', () => end(0))
      process.once('SIGTERM', () => end(0))
    })
    const { DevnodeProcess } = await import('../../devnode/process.ts')
    const { Meters } = await import('../../base/telemetry/meters.ts')
    try {
      const node = await DevnodeProcess.start(options.value, {
        clock: systemClock,
        log: log.area('devnode'),
        meters: new Meters(),
        onDown: giveUp,
      })
      if (!hasSwitch(call, 'quiet')) process.stdout.write(guide(node.addresses))
      await ended
      await node.stop()
      return accept({ json: {}, text: '', isPrinted: true })
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      return refuse('unavailable', error.kind, error.message)
    } finally {
      await locked.value.release()
    }
  },
}

function giveUp(fault: Fault): void {
  process.stderr.write(`${fault.message}\n`)
  exitNow(1)
}

function optionsOf(call: Call): Outcome<DevnodeOptions> {
  const { chain, data } = call.loaded.config
  const shreds = flagOf(call, 'shreds')
  const target = shreds === undefined ? null : parseEndpoint(shreds)
  if (shreds !== undefined && target === null)
    return misuse('--shreds must be a literal address and a port, such as 127.0.0.1:8002')
  const host = flagOf(call, 'bind-address') ?? defaultHost
  if (!isLoopback(host))
    return misuse('--bind-address must be a loopback address: the node has no authentication')
  const section = chainOf(call, chain)
  if (!section.ok) return section
  const genesis = genesisOf(call)
  if (!genesis.ok) return genesis
  const warpSlot = warpSlotOf(call)
  if (!warpSlot.ok) return warpSlot
  const rpc = numberOf(call, 'rpc-port', defaultPorts.rpc)
  const ports = {
    rpcPort: rpc,
    wsPort: numberOf(call, 'ws-port', rpc === 0 ? 0 : rpc + 1),
    grpcPort: numberOf(call, 'grpc-port', defaultPorts.grpc),
  }
  const cluster = clusterOf(call, ports)
  if (!cluster.ok) return cluster
  const folder = resolve(flagOf(call, 'ledger') ?? join(data, 'devnode'))
  return accept({
    // Beside the lock file of the folder, which a reset must not remove.
    ledger: join(folder, 'chain'),
    files: folder,
    isReset: hasSwitch(call, 'reset'),
    genesis: genesis.value,
    warpSlot: warpSlot.value,
    host,
    ...ports,
    cluster: cluster.value,
    secret: null,
    chain: section.value,
    shreds: target && {
      host: formatAddress(target.address),
      port: target.port,
      version: shredVersion,
    },
    version: packageVersion(),
  })
}

/** The configured section and what the flags change. */
function chainOf(call: Call, chain: Config['chain']): Outcome<Config['chain']> {
  const agave = agaveOf(call)
  if (!agave.ok) return agave
  const slotMs = slotMsOf(call)
  if (!slotMs.ok) return slotMs
  const cap = lamportsOf(call, 'faucet-per-request-sol-cap')
  if (!cap.ok) return cap
  return accept({
    ...chain,
    agave: agave.value ?? chain.agave,
    traffic: numberOf(call, 'traffic', 0),
    slotMs: slotMs.value ?? chain.slotMs,
    slotsPerEpoch: numberOf(call, 'slots-per-epoch', chain.slotsPerEpoch),
    historySlots: numberOf(call, 'limit-ledger-size', chain.historySlots),
    airdropLamports: Number(cap.value ?? chain.airdropLamports),
  })
}

/** How to point the usual clients at the node. */
function guide({ rpc, ws, grpc, identity, faucet, peers }: DevnodeAddresses): string {
  const [http, socket] = [urlOf('rpc', rpc), urlOf('websocket', ws)]
  return `rpc         ${http}
websocket   ${socket}
grpc        ${urlOf('grpc', grpc)}
identity    ${identity}
faucet      ${faucet} (requestAirdrop)
${peers.map(peerLine).join('')}
# web3.js     new Connection('${http}', { wsEndpoint: '${socket}' })
# kit         createSolanaRpc('${http}'), createSolanaRpcSubscriptions('${socket}')
# solana CLI  solana config set --url ${http} --ws ${socket}
${slotCall(http)}
`
}

function peerLine({ rpc, ws, grpc, identity }: NodeAddresses, index: number): string {
  const urls = [urlOf('rpc', rpc), urlOf('websocket', ws), urlOf('grpc', grpc)]
  const name = `node ${index + 2}`.padEnd(11)
  return `${name} ${urls.join(' ')} ${identity}\n`
}

function slotCall(url: string): string {
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
  return `curl -sS ${url} -H 'content-type: application/json' -d '${body}'`
}
