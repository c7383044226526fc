// What a developer adds to the first block of the devnode: accounts and programs from files or from
// another node. Thread: main of the devnode.
// All of it is read and checked before the chain's folder is made: a mistake leaves nothing.
import { keyText } from '../chain/solana/key-text.ts'
import { type Cloned, cloneAccounts } from './clone.ts'
import type { VmAccount } from './executed.ts'
import {
  accountInFile,
  accountsInFolder,
  inputFault,
  keyGiven,
  keyIn,
  programAccounts,
} from './genesis-files.ts'

/** Paths are absolute; addresses are texts, as they were given. */
export interface GenesisInput {
  /** The flags that were given, for the log. */
  readonly flags: readonly string[]
  /** Null: the address in the file. */
  readonly accounts: readonly { readonly address: string | null; readonly file: string }[]
  readonly accountFolders: readonly string[]
  readonly programs: readonly ProgramInput[]
  readonly clones: readonly Cloned[]
  /** The node to clone from. */
  readonly url: string | null
  /** An address, or the file of a key pair, that receives 500,000,000 SOL. */
  readonly mint: string | null
  readonly faucetLamports: bigint | null
}

export interface ProgramInput {
  readonly flag: string
  /** Base58 or the file of a key pair. */
  readonly address: string
  readonly file: string
  /** Null: it is final. */
  readonly authority: string | null
}

/** What the first block has besides the chain's own accounts. */
export interface Genesis {
  readonly accounts: readonly VmAccount[]
  readonly mint: Uint8Array | null
  readonly faucetLamports: bigint | null
}

/**
 * Reads and checks everything; throws a `Fault` with one sentence on what is wrong. `isLoadable`:
 * whether the VM takes an account; it has the code of a program before the program.
 */
export async function readGenesis(
  input: GenesisInput,
  isLoadable: (account: VmAccount) => boolean,
): Promise<Genesis> {
  const given: { readonly where: string; readonly accounts: readonly VmAccount[] }[] = []
  for (const { flag, address, file, authority } of input.programs) {
    const accounts = await programAccounts(flag, {
      program: await keyIn(flag, address),
      file,
      authority: authority === null ? null : await keyIn(flag, authority),
    })
    given.push({ where: `${flag}: ${file}`, accounts })
  }
  for (const { address, file } of input.accounts) {
    const key = address === null ? null : keyGiven('--account', address)
    const account = await accountInFile('--account', file, key)
    given.push({ where: `--account: ${file}`, accounts: [account] })
  }
  for (const folder of input.accountFolders)
    given.push({ where: `--account-dir: ${folder}`, accounts: await accountsInFolder(folder) })
  const { url, clones, faucetLamports } = input
  if (url !== null && clones.length > 0)
    given.push({ where: `--url: ${url}`, accounts: await cloneAccounts(url, clones) })
  const isCode = ({ executable }: VmAccount) => !executable
  for (const wanted of [isCode, ({ executable }: VmAccount) => executable])
    for (const { where, accounts } of given)
      for (const account of accounts.filter(wanted))
        if (!isLoadable(account))
          throw inputFault(`${where}: the program ${keyText(account.pubkey)} cannot be loaded`)
  const mint = input.mint === null ? null : await keyIn('--mint', input.mint)
  return { accounts: given.flatMap(({ accounts }) => accounts), mint, faucetLamports }
}
