// `sluice devnode`: a local Solana node for tests, without token and quota.
// The node runs in a child process, so that an abort of native code costs a restart, not the node.
import { join, resolve } from 'node:path'
import { formatAddress, isLoopback } from '../../base/cidr.ts'
import { systemClock } from '../../base/clock.ts'
import { accept, type Fault, type Outcome } from '../../base/errors.ts'
import { exitNow } from '../../base/exit.ts'
import { openLog } from '../../base/telemetry/open-log.ts'
import { type AgaveVersion, agaveVersions } from '../../chain/solana/version.ts'
import { lockData } from '../../customers/subscriptions/lock.ts'
import { parseEndpoint } from '../../customers/subscriptions/subscription.ts'
import { type FaultName, faultNames, usualFaults } from '../../devnode/cluster/plan.ts'
import type { GenesisInput } from '../../devnode/genesis-input.ts'
import type {
  DevnodeAddresses,
  DevnodeCluster,
  DevnodeOptions,
  NodeAddresses,
  NodePorts,
} from '../../devnode/node.ts'
import type { Config } from '../config/config.ts'
import { urlOf } from './banner.ts'
import {
  type Call,
  type FlagSpec,
  flagOf,
  flagTable,
  groupsOf,
  hasSwitch,
  lamportsOf,
  misuse,
  numberOf,
  refusedFault,
  type Verb,
} from './verb.ts'
import { packageVersion } from './version.ts'

const defaultHost = '127.0.0.1'
const shredVersion = 1

/** As solana-test-validator: PubSub on the port after RPC; geyser where its plugins listen. */
export const defaultPorts = { rpc: 8_899, grpc: 10_000 } as const
const portRange = '0..65535'
const slotRange = `0..${2 ** 52}`
/** 160 ticks a second, as on the real chain. */
const msPerTick = 6.25
const slotMsMin = 20
const nodesMax = 16

/** What a chain begins with: ignored, with a warning, when the ledger exists. */
const genesisFlags = flagTable(`
  --account <address> <file> ...  Account from a file of solana account --output json;
                                  "-": the address in the file.
  --account-dir <folder> ...      Accounts of all its .json files.
  --bpf-program <address|keypair> <program.so> ...  Program that cannot be upgraded.
  --upgradeable-program <address|keypair> <program.so> <authority|none> ...  Program that its
                                  authority can upgrade.
  -c --clone <address> ...        Account copied from --url.
  --maybe-clone <address> ...     The same; one that does not exist is left out.
  --clone-upgradeable-program <address> ...  Program copied from --url with its code.
  -u --url <url>                  Node to copy from: a URL, or mainnet-beta, testnet, devnet,
                                  localhost.
  --mint <address|keypair>        Wallet that receives 500,000,000 SOL.
  --faucet-sol <sol>              Balance of the faucet [500000000].
  --slots-per-epoch <slots 32..1000000>  Slots of an epoch [chain.slotsPerEpoch].`)

export const devnodeFlags: readonly FlagSpec[] = [
  ...flagTable(`
  --rpc-port <port ${portRange}>   Port of JSON-RPC [${defaultPorts.rpc}]; 0 is any free one.
  --ws-port <port ${portRange}>    Port of PubSub [the RPC port + 1].
  --grpc-port <port ${portRange}>  Port of geyser [${defaultPorts.grpc}].
  --bind-address <host>     Loopback address of all ports [127.0.0.1].
  -l --ledger <folder>      Folder of the chain [<data>/devnode].
  -r --reset                Drop the chain in that folder and begin at slot 0.
  -q --quiet                Print nothing at the start.
  --shreds <host:port>      Send shreds by UDP to this literal address.
  --agave <version>         Version of agave to answer as: ${agaveVersions.join(', ')}
                            [chain.agave].
  --traffic <rate 0..5000>  Background transactions per second [0].
  --slot-ms <ms ${slotMsMin}..60000>  Slot time in milliseconds [400].
  --ticks-per-slot <ticks 2..9600>  Slot time in ticks of ${msPerTick} ms, at least ${slotMsMin} ms;
                            or set --slot-ms.
  --limit-ledger-size <slots ${slotRange}>  Slots of history to keep, not shreds
                            [chain.historySlots]; at least 320.
  -w --warp-slot [slot ${slotRange}]  Skip to this slot; without a value to the slot of --url.
  --faucet-per-request-sol-cap <sol>  Most that one requestAirdrop may request
                            [chain.airdropLamports].
  --nodes <count 1..${nodesMax}>     Nodes that share the chain, each on the next ports, with faults
                            between them [1].
  --faults <list>           Faults, by commas: ${faultNames.join(', ')}, none
                            [the first six with --nodes].
  --seed <number 0..${2 ** 31 - 1}>  The script of the faults, and the keys of a new chain [1].
  --alpenglow               Start migrated: a block is confirmed and finalized together.
  --rpc-pubsub-enable-block-subscription  No effect: blockSubscribe is always on.
  --rpc-pubsub-enable-vote-subscription  No effect: the chain has no vote transactions,
                            voteSubscribe is refused.`),
  ...genesisFlags,
]

const notOffered = 'it changes the runtime, which is fixed here'
const noGossip = 'it has no gossip and serves on --rpc-port, --ws-port and --grpc-port only'

/** Flags of solana-test-validator that make no sense here. */
export const foreignFlags: Readonly<Record<string, string>> = {
  log: 'log lines always go to stderr; set logLevel in the configuration',
  'account-index': 'every index is always there',
  'faucet-port': 'airdrops are requested by requestAirdrop',
  'faucet-time-slice-secs': 'airdrops are not limited in time',
  'faucet-per-time-sol-cap': 'airdrops are not limited in time',
  'geyser-plugin-config': 'it serves geyser itself, on --grpc-port',
  'deep-clone-address-lookup-table': 'copy the table and its addresses with --clone',
  'clone-feature-set': notOffered,
  'deactivate-feature': notOffered,
  'compute-unit-limit': notOffered,
  'max-compute-units': notOffered,
  'log-messages-bytes-limit': notOffered,
  'transaction-account-lock-limit': notOffered,
  'inflation-fixed': 'there is no inflation',
  'gossip-port': noGossip,
  'gossip-host': noGossip,
  'dynamic-port-range': noGossip,
  'advertised-ip': noGossip,
  'enable-scheduler-bindings': notOffered,
  'enable-rpc-bigtable-ledger-storage': 'it keeps its own history, see --limit-ledger-size',
  'enable-bigtable-ledger-upload': 'it keeps its own history, see --limit-ledger-size',
}

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
      return refusedFault(error)
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

/** The cluster that the flags describe; null for one plain node. */
export function clusterOf(
  call: Pick<Call, 'flags'>,
  first: NodePorts,
): Outcome<DevnodeCluster | null> {
  const nodes = numberOf(call, 'nodes', 1)
  const text = flagOf(call, 'faults')
  const names = text === undefined || text === 'none' ? [] : text.split(',')
  const unknown = names.find((name) => !faultNames.some((known) => known === name))
  if (unknown !== undefined)
    return misuse(`--faults: no fault is named ${unknown}; there are ${faultNames.join(', ')}`)
  const isAlpenglow = hasSwitch(call, 'alpenglow')
  const isPlain = nodes === 1 && names.length === 0 && !isAlpenglow
  if (isPlain && flagOf(call, 'seed') === undefined) return accept(null)
  // Reason for the cast: every name was compared above.
  const faults = text === undefined && nodes > 1 ? usualFaults : (names as FaultName[])
  const { rpcPort, wsPort, grpcPort } = first
  const after = (port: number, by: number) => (port === 0 ? 0 : port + by)
  return accept({
    seed: numberOf(call, 'seed', 1),
    isSeeded: flagOf(call, 'seed') !== undefined,
    faults,
    isAlpenglow,
    peers: Array.from({ length: nodes - 1 }, (_, index) => ({
      rpcPort: after(rpcPort, 2 * (index + 1)),
      wsPort: after(wsPort, 2 * (index + 1)),
      grpcPort: after(grpcPort, index + 1),
    })),
  })
}

/** Accounts, programs and balances that the flags give; null when they give none. */
export function genesisOf(call: Call): Outcome<GenesisInput | null> {
  const flags = genesisFlags
    .map(({ name }) => name)
    .filter((name) => name !== 'url' && call.flags.has(name))
  if (flags.length === 0) return accept(null)
  const url = sourceUrl(call)
  const cloning = flags.find((name) => name.includes('clone'))
  if (cloning !== undefined && url === null) return misuse(`--${cloning} needs --url`)
  const faucet = lamportsOf(call, 'faucet-sol')
  if (!faucet.ok) return faucet
  const cloned = (flag: string, how: { isOptional: boolean; isProgram: boolean }) =>
    (call.flags.get(flag) ?? []).map((address) => ({ flag: `--${flag}`, address, ...how }))
  return accept({
    flags: flags.map((name) => `--${name}`),
    accounts: groupsOf(call, 'account', 2).map(([address = '', file = '']) => ({
      address: address === '-' ? null : address,
      file: resolve(file),
    })),
    accountFolders: (call.flags.get('account-dir') ?? []).map((folder) => resolve(folder)),
    programs: [
      ...programsOf('bpf-program', groupsOf(call, 'bpf-program', 2)),
      ...programsOf('upgradeable-program', groupsOf(call, 'upgradeable-program', 3)),
    ],
    clones: [
      ...cloned('clone', { isOptional: false, isProgram: false }),
      ...cloned('maybe-clone', { isOptional: true, isProgram: false }),
      ...cloned('clone-upgradeable-program', { isOptional: false, isProgram: true }),
    ],
    url,
    mint: flagOf(call, 'mint') ?? null,
    faucetLamports: faucet.value,
  })
}

function programsOf(flag: string, groups: readonly string[][]): GenesisInput['programs'] {
  return groups.map(([address = '', file = '', authority = 'none']) => ({
    flag: `--${flag}`,
    address,
    file: resolve(file),
    authority: authority === 'none' ? null : authority,
  }))
}

const monikers = ['mainnet-beta', 'testnet', 'devnet', 'localhost'] as const

/** The URL of --url: also a moniker or its first letter. */
function sourceUrl(call: Pick<Call, 'flags'>): string | null {
  const text = flagOf(call, 'url')
  if (text === undefined) return null
  const moniker = monikers.find((name) => name === text || name[0] === text)
  if (moniker === undefined) return text
  if (moniker === 'localhost') return `http://127.0.0.1:${defaultPorts.rpc}`
  return `https://api.${moniker}.solana.com`
}

/** The slot of --warp-slot, or the URL of the node whose slot it is; null without the flag. */
export function warpSlotOf(call: Pick<Call, 'flags'>): Outcome<number | string | null> {
  const text = flagOf(call, 'warp-slot')
  if (text === undefined) return accept(null)
  if (text !== '') return accept(Number(text))
  const url = sourceUrl(call)
  return url === null ? misuse('--warp-slot needs a slot or --url') : accept(url)
}

/** Undefined without the flag. */
export function agaveOf(call: Call): Outcome<AgaveVersion | undefined> {
  const given = flagOf(call, 'agave')
  const found = agaveVersions.find((version) => version === given)
  if (given === found) return accept(found)
  return misuse(`--agave must be one of ${agaveVersions.join(', ')}`)
}

/** The slot time of --slot-ms or --ticks-per-slot; null when neither is given. */
export function slotMsOf(call: Pick<Call, 'flags'>): Outcome<number | null> {
  const ms = flagOf(call, 'slot-ms')
  const ticks = flagOf(call, 'ticks-per-slot')
  if (ms !== undefined && ticks !== undefined)
    return misuse('--slot-ms and --ticks-per-slot both set the slot time: give one of them')
  if (ms !== undefined) return accept(Number(ms))
  if (ticks === undefined) return accept(null)
  return accept(Math.max(slotMsMin, Math.round(Number(ticks) * msPerTick)))
}
