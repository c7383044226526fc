// Writes the files that scripts and tests read in the ledger folder of a test validator: key pairs,
// and a log that says what the node is. Thread: main of the devnode.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Keypair } from '../chain/solana/keypair.ts'
import { solanaVersion } from '../chain/solana/version.ts'
import { keyPairNames } from './genesis.ts'
import type { LedgerState } from './ledger/state.ts'
import type { NodeContact } from './rpc/rpc-node.ts'

/** Overwrites them: a reset begins with other keys. */
export async function writeLedgerFiles(
  folder: string,
  node: {
    readonly seed: Uint8Array
    readonly ledger: Pick<LedgerState, 'genesisHash' | 'identity'>
    readonly contact: NodeContact
    /** The version of the package. */
    readonly version: string
  },
): Promise<void> {
  const { seed, ledger, contact, version } = node
  const { host, rpc, udp, shredVersion } = contact
  for (const [file, name] of Object.entries(keyPairFiles)) {
    const { secretKey } = Keypair.derive(seed, name)
    await writeFile(join(folder, file), `${JSON.stringify([...secretKey])}\n`, { mode: 0o600 })
  }
  const featureSet = solanaVersion['feature-set'].toString(16)
  const lines = [
    `agave-validator ${solanaVersion['solana-core']} (sluice ${version}; feat:${featureSet})`,
    `identity pubkey: ${ledger.identity}`,
    `genesis hash: ${ledger.genesisHash}`,
    `shred_version: ${shredVersion}`,
    `local gossip address: ${host}:${udp}`,
    `rpc bound to ${host}:${rpc}`,
  ]
  await writeFile(join(folder, 'validator.log'), `${lines.join('\n')}\n`)
}

const keyPairFiles = {
  'faucet-keypair.json': keyPairNames.faucet,
  'validator-keypair.json': keyPairNames.identity,
  'vote-account-keypair.json': keyPairNames.vote,
  'stake-account-keypair.json': keyPairNames.stake,
} as const
