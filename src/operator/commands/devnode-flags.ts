// The flags of `sluice devnode`: those of solana-test-validator with their names, values and file
// formats, and a few of its own.
import { resolve } from 'node:path'
import { accept, type Outcome } from '../../base/errors.ts'
import { type AgaveVersion, agaveVersions } from '../../chain/solana/version.ts'
import { type FaultName, faultNames, usualFaults } from '../../devnode/cluster/plan.ts'
import type { GenesisInput } from '../../devnode/genesis-input.ts'
import type { DevnodeCluster } from '../../devnode/node.ts'
import type { NodePorts } from '../../devnode/node-set.ts'
import {
  type Call,
  type FlagSpec,
  flagOf,
  flagTable,
  groupsOf,
  hasSwitch,
  misuse,
  numberOf,
} from './verb.ts'

/** As solana-test-validator: PubSub on the port after RPC; geyser where its plugins listen. */
export const defaultPorts = { rpc: 8_899, grpc: 10_000 } as const
const ports = '0..65535'
const slots = `0..${2 ** 52}`
const lamportsPerSol = 1_000_000_000n
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
  --rpc-port <port ${ports}>   Port of JSON-RPC [${defaultPorts.rpc}]; 0 is any free one.
  --ws-port <port ${ports}>    Port of PubSub [the RPC port + 1].
  --grpc-port <port ${ports}>  Port of geyser [${defaultPorts.grpc}].
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
  --limit-ledger-size <slots ${slots}>  Slots of history to keep, not shreds
                            [chain.historySlots]; at least 320.
  -w --warp-slot [slot ${slots}]  Skip to this slot; without a value to the slot of --url.
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

/** Accounts, programs and balances that the flags give; null when they give none. */
export function genesisOf(call: Call): Outcome<GenesisInput | null> {
  const flags = genesisFlags
    .map(({ name }) => name)
    .filter((name) => name !== 'url' && call.flags.has(name))
  if (flags.length === 0) return accept(null)
  const url = urlOf(call)
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
function urlOf(call: Pick<Call, 'flags'>): string | null {
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
  const url = urlOf(call)
  return url === null ? misuse('--warp-slot needs a slot or --url') : accept(url)
}

/** An amount of SOL as lamports; null when the flag is not given. */
export function lamportsOf(call: Pick<Call, 'flags'>, name: string): Outcome<bigint | null> {
  const text = flagOf(call, name)
  if (text === undefined) return accept(null)
  const [, whole, part = ''] = /^(\d{1,9})(?:\.(\d{1,9}))?$/.exec(text) ?? []
  if (whole === undefined) return misuse(`--${name} must be an amount of SOL, such as 1000 or 0.5`)
  return accept(BigInt(whole) * lamportsPerSol + BigInt(part.padEnd(9, '0')))
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
