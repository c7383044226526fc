// Declares the `chain` section of the configuration.
import { choice, group, integer, type Values } from '../base/fields.ts'
import { agaveVersions } from '../chain/solana/version.ts'

/** Blocks that are in memory too; older ones are read from disk. */
export const recentBlocks = 1_000
export const recentBytes = 64 * 1024 * 1024

/** `airdropLamports` of a faucet without a cap: its balance is the only bound. */
export const airdropAny = Number.MAX_SAFE_INTEGER

export const chainSection = group('The Solana chain that rpc, websocket, grpc and tpu serve.', {
  source: choice(['embedded', 'upstream'], {
    initial: 'embedded',
    doc:
      'Where the chain is: embedded runs one inside the server, ' +
      'upstream uses the nodes of upstreams.default.',
  }),
  agave: choice(agaveVersions, {
    initial: '4.3',
    doc: 'Version of agave that the embedded chain answers as.',
  }),
  traffic: integer({
    initial: 50,
    min: 0,
    max: 5_000,
    unit: 'transactions/s',
    doc: 'Background traffic of the embedded chain, all real and signed; 0 turns it off.',
  }),
  slotMs: integer({
    initial: 400,
    min: 20,
    max: 60_000,
    unit: 'ms',
    doc: 'Slot time of the embedded chain.',
  }),
  slotsPerEpoch: integer({
    initial: 432_000,
    min: 32,
    max: 1_000_000,
    unit: 'slots',
    doc: 'Slots of an epoch of the embedded chain; a chain keeps what it began with.',
  }),
  historySlots: integer({
    initial: 100_000,
    min: 320,
    max: 10_000_000,
    unit: 'slots',
    doc: 'Blocks and transactions that the embedded chain keeps on disk.',
  }),
  historyBytes: integer({
    initial: 4 * 1024 * 1024 * 1024,
    min: 16 * 1024 * 1024,
    max: 64 * 1024 * 1024 * 1024,
    unit: 'bytes',
    doc: 'Disk space for that history, about; the oldest blocks go first, the last 320 stay.',
  }),
  snapshotSlots: integer({
    initial: 1_500,
    min: 10,
    max: 1_000_000,
    unit: 'slots',
    doc: 'The embedded chain writes all its accounts to disk this often.',
  }),
  airdropLamports: integer({
    initial: airdropAny,
    min: 0,
    max: airdropAny,
    unit: 'lamports',
    doc: 'Most that one requestAirdrop may request; the default is no cap, 0 turns airdrops off.',
  }),
})

export type ChainSection = Values<typeof chainSection.fields>
