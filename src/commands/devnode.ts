// `sluice devnode`: a local Solana node for tests, without token and quota. Thread: main.
// The node runs in a child process, so that an abort of native code costs a restart, not the node.
import { join, resolve } from 'node:path'
import { formatAddress } from '../base/cidr.ts'
import { systemClock } from '../base/clock.ts'
import { accept, Fault, type Outcome, refuse } from '../base/errors.ts'
import type { DevnodeAddresses, DevnodeOptions } from '../devnode/node.ts'
import { parseEndpoint } from '../subscriptions/destination.ts'
import { lockData } from '../subscriptions/lock.ts'
import { openLog } from '../telemetry/log.ts'
import { urlOf } from './banner.ts'
import { packageVersion } from './package-version.ts'
import { type Call, flagOf, hasSwitch, misuse, numberOf, type Verb } from './verb.ts'

const host = '127.0.0.1'
/** As solana-test-validator: PubSub on the port after RPC; geyser where its plugins listen. */
const rpcPort = 8_899
const grpcPort = 10_000
const ports = [0, 65_535] as const
const shredVersion = 1

export const devnodeVerb: Verb = {
  words: ['devnode'],
  summary: 'Run a local Solana node for tests: RPC, PubSub and geyser, no token.',
  flags: [
    {
      name: 'rpc-port',
      value: 'port',
      range: ports,
      doc: `Port of JSON-RPC [${rpcPort}]; 0 is any free one.`,
    },
    { name: 'ws-port', value: 'port', range: ports, doc: 'Port of PubSub [the RPC port + 1].' },
    { name: 'grpc-port', value: 'port', range: ports, doc: `Port of geyser [${grpcPort}].` },
    { name: 'ledger', value: 'folder', doc: 'Folder of the chain [<data>/devnode].' },
    { name: 'shreds', value: 'host:port', doc: 'Send shreds by UDP to this literal address.' },
    { name: 'reset', doc: 'Drop the chain in that folder and begin at slot 0.' },
    {
      name: 'traffic',
      value: 'rate',
      range: [0, 5_000],
      doc: 'Background transactions per second [0].',
    },
    { name: 'slot-ms', value: 'ms', range: [20, 60_000], doc: 'Slot time in milliseconds [400].' },
  ],
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
    const { DevnodeProcess } = await import('../devnode/process.ts')
    const { Meters } = await import('../telemetry/meters.ts')
    try {
      const node = await DevnodeProcess.start(options.value, {
        clock: systemClock,
        log: log.area('devnode'),
        meters: new Meters(),
        onDown: giveUp,
      })
      process.stdout.write(guide(node.addresses))
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
  process.exit(1)
}

function optionsOf(call: Call): Outcome<DevnodeOptions> {
  const { chain, data } = call.loaded.config
  const shreds = flagOf(call, 'shreds')
  const target = shreds === undefined ? null : parseEndpoint(shreds)
  if (shreds !== undefined && target === null)
    return misuse('--shreds must be a literal address and a port, such as 127.0.0.1:8002')
  const rpc = numberOf(call, 'rpc-port', rpcPort)
  return accept({
    // Beside the lock file of the folder, which a reset must not remove.
    ledger: join(resolve(flagOf(call, 'ledger') ?? join(data, 'devnode')), 'chain'),
    isReset: hasSwitch(call, 'reset'),
    host,
    rpcPort: rpc,
    wsPort: numberOf(call, 'ws-port', rpc === 0 ? 0 : rpc + 1),
    grpcPort: numberOf(call, 'grpc-port', grpcPort),
    chain: {
      ...chain,
      traffic: numberOf(call, 'traffic', 0),
      slotMs: numberOf(call, 'slot-ms', chain.slotMs),
    },
    shreds: target && {
      host: formatAddress(target.address),
      port: target.port,
      version: shredVersion,
    },
    version: packageVersion(),
  })
}

/** How to point the usual clients at the node. */
function guide({ rpc, ws, grpc, identity, faucet }: DevnodeAddresses): string {
  const [http, socket] = [urlOf('rpc', rpc), urlOf('websocket', ws)]
  return `rpc         ${http}
websocket   ${socket}
grpc        ${urlOf('grpc', grpc)}
identity    ${identity}
faucet      ${faucet} (requestAirdrop)

# web3.js     new Connection('${http}', { wsEndpoint: '${socket}' })
# kit         createSolanaRpc('${http}'), createSolanaRpcSubscriptions('${socket}')
# solana CLI  solana config set --url ${http} --ws ${socket}
curl -s ${http} -H 'content-type: application/json' -d '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
`
}
