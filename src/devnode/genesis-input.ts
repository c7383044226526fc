// What a developer adds to the first block of the devnode: accounts and programs from files or from
// another node. Thread: main of the devnode.
// All of it is read and checked before the chain's folder is made: a mistake leaves nothing.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Fault, messageOf } from '../base/errors.ts'
import { decodeBase58, decodeKey, isSameKey, keyText } from '../chain/solana/base58.ts'
import { findProgramAddress } from '../chain/solana/program-address.ts'
import { programs } from '../chain/solana/programs.ts'
import { rentExemptMinimum } from './rent.ts'
import type { VmAccount } from './svm.ts'

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

// Reads accounts, programs and keys from the files that flags name.
// Accounts are as `solana account --output json` writes them, programs are ELF files.

/** As the runtime: the largest data of an account. */
const dataBytesMax = 10 * 1024 * 1024
const elfMagic = Buffer.from('\x7fELF', 'latin1')
/** Of the upgradeable loader: kind u32, then slot u64 and an optional authority, or an address. */
const codeKind = 3
const programKind = 2
const codeHeadBytes = 45
const u64Max = 0xffff_ffff_ffff_ffffn

/** `address`: null takes the one in the file. */
export async function accountInFile(
  flag: string,
  file: string,
  address: Uint8Array | null,
): Promise<VmAccount> {
  const where = `${flag}: ${file}`
  const record = recordOf(parseAccounts(where, (await read(flag, file)).toString()))
  const pubkey = address ?? decodeKey(String(record.pubkey))
  if (pubkey === null) throw inputFault(`${where} has no address in "pubkey"`)
  return accountOf(where, pubkey, record.account)
}

/** Every file in the folder whose name ends in .json. */
export async function accountsInFolder(folder: string): Promise<VmAccount[]> {
  const flag = '--account-dir'
  const names = await readdir(folder).catch(() => {
    throw inputFault(`${flag}: the folder ${folder} cannot be read`)
  })
  const files = names.filter((name) => name.endsWith('.json')).sort()
  return Promise.all(files.map((name) => accountInFile(flag, join(folder, name), null)))
}

/**
 * An upgradeable program and the account of its code, deployed at slot 0. Without an authority it
 * has the zero key, which cannot sign, as solana-test-validator does.
 */
export async function programAccounts(
  flag: string,
  of: {
    readonly program: Uint8Array
    readonly file: string
    readonly authority: Uint8Array | null
  },
): Promise<VmAccount[]> {
  const elf = await read(flag, of.file)
  if (!elf.subarray(0, 4).equals(elfMagic))
    throw inputFault(`${flag}: ${of.file} is not a program (an ELF file)`)
  const head = Buffer.alloc(codeHeadBytes)
  head.writeUInt32LE(codeKind, 0)
  head[12] = 1
  if (of.authority !== null) head.set(of.authority, 13)
  const owner = programs.upgradeableLoader
  const { address: code } = findProgramAddress([of.program], owner)
  const account = (pubkey: Uint8Array, data: Buffer, executable: boolean): VmAccount => {
    const lamports = rentExemptMinimum(data.length)
    return { pubkey, data, executable, owner, lamports, rentEpoch: 0n }
  }
  return [
    account(code, Buffer.concat([head, elf]), false),
    account(of.program, Buffer.concat([Buffer.of(programKind, 0, 0, 0), code]), true),
  ]
}

/** The key of a base58 text, or of the key pair in the file of that name. */
export async function keyIn(flag: string, text: string): Promise<Uint8Array> {
  const key = decodeKey(text)
  if (key !== null) return key
  const bytes: unknown = await readFile(text, 'utf8')
    .then(JSON.parse)
    .catch(() => null)
  if (Array.isArray(bytes) && bytes.length === 64 && bytes.every((byte) => byte >>> 8 === 0))
    return Uint8Array.from(bytes.slice(32))
  throw inputFault(`${flag}: "${text}" is neither an address in base58 nor a key pair file`)
}

/** The key of a base58 text. */
export function keyGiven(flag: string, text: string): Uint8Array {
  const key = decodeKey(text)
  if (key === null) throw inputFault(`${flag}: "${text}" is not an address in base58`)
  return key
}

/** JSON in which the numbers of accounts that may exceed 2^53 are texts. */
export function parseAccounts(where: string, text: string): unknown {
  try {
    return JSON.parse(text.replace(/("(?:lamports|rentEpoch)"\s*:\s*)(\d+)/g, '$1"$2"'))
  } catch {
    throw inputFault(`${where} is not JSON`)
  }
}

/** An account as JSON-RPC shows it, with its data in base64 or base58. */
export function accountOf(where: string, pubkey: Uint8Array, shown: unknown): VmAccount {
  const { lamports, owner, executable, rentEpoch, data } = recordOf(shown)
  const fail = (what: string) => inputFault(`${where} ${what}`)
  const ownerKey = decodeKey(String(owner))
  if (ownerKey === null) throw fail('has no address in "owner"')
  const bytes = dataOf(data)
  if (bytes === null) throw fail('has no "data" in base64 or base58')
  if (bytes.length > dataBytesMax) throw fail(`has more than ${dataBytesMax} bytes of data`)
  if (!isU64(lamports)) throw fail('has no whole number in "lamports"')
  if (typeof executable !== 'boolean') throw fail('has neither true nor false in "executable"')
  return {
    pubkey,
    lamports: BigInt(lamports),
    owner: ownerKey,
    executable,
    // Tools that count in doubles write 2^64 for its largest value.
    rentEpoch: isU64(rentEpoch) ? BigInt(rentEpoch) : u64Max,
    data: bytes,
  }
}

export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  // Reason for the cast: an object of JSON is a record.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

export function inputFault(message: string): Fault {
  return new Fault('genesis-input', message)
}

function isU64(value: unknown): value is string {
  return typeof value === 'string' && /^\d{1,20}$/.test(value) && BigInt(value) <= u64Max
}

/** `[text, encoding]`, or a text alone, which is base58. */
function dataOf(data: unknown): Uint8Array | null {
  const [text, encoding] = Array.isArray(data) ? data : [data, 'base58']
  if (typeof text !== 'string') return null
  if (encoding === 'base58') return decodeBase58(text)
  const bytes = Buffer.from(text, 'base64')
  return encoding === 'base64' && bytes.toString('base64') === text ? bytes : null
}

async function read(flag: string, file: string): Promise<Buffer> {
  return readFile(file).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : `cannot be read (${error.code})`
    throw inputFault(`${flag}: the file ${file} ${why}`)
  })
}

// Copies accounts from another node by JSON-RPC, for the first block of the devnode.

export interface Cloned {
  readonly flag: string
  readonly address: string
  /** A missing account is left out instead of refused. */
  readonly isOptional: boolean
  /** The code of an upgradeable program is copied too. */
  readonly isProgram: boolean
}

/** As getMultipleAccounts takes at once. */
const accountsMax = 100
const callMsMax = 60_000

export async function cloneAccounts(url: string, clones: readonly Cloned[]): Promise<VmAccount[]> {
  const wanted = clones.map((clone) => ({ ...clone, key: keyGiven(clone.flag, clone.address) }))
  const found = await fetchAccounts(url, wanted)
  const code: Wanted[] = []
  for (const [index, { flag, address, isProgram }] of wanted.entries()) {
    const account = found[index] ?? null
    if (!isProgram || account === null) continue
    if (account.data.length !== 36 || !isSameKey(account.owner, programs.upgradeableLoader))
      throw inputFault(`${flag}: ${address} at ${url} is not an upgradeable program`)
    code.push({ flag, key: account.data.subarray(4), isOptional: false })
  }
  // The code before the program: the VM loads both together.
  return [...(await fetchAccounts(url, code)), ...found]
    .filter((account) => account !== null)
    .map(deployedAtGenesis)
}

/** The slot of the node at the URL. */
export async function slotAt(url: string): Promise<number> {
  return Number(await call(url, 'getSlot', []))
}

interface Wanted {
  readonly flag: string
  readonly key: Uint8Array
  readonly isOptional: boolean
}

async function fetchAccounts(
  url: string,
  wanted: readonly Wanted[],
): Promise<(VmAccount | null)[]> {
  const accounts: (VmAccount | null)[] = []
  for (let at = 0; at < wanted.length; at += accountsMax) {
    const some = wanted.slice(at, at + accountsMax)
    const keys = some.map(({ key }) => keyText(key))
    const result = await call(url, 'getMultipleAccounts', [keys, { encoding: 'base64' }])
    const { value } = recordOf(result)
    for (const [index, { flag, key, isOptional }] of some.entries()) {
      const where = `${flag}: the account ${keyText(key)} at ${url}`
      const shown = Array.isArray(value) ? (value[index] ?? null) : null
      if (shown === null && !isOptional) throw inputFault(`${where} does not exist`)
      accounts.push(shown === null ? null : accountOf(where, key, shown))
    }
  }
  return accounts
}

/** A program counts as deployed in slot 0, or it could not run before the slot it came from. */
function deployedAtGenesis(account: VmAccount): VmAccount {
  const { owner, data } = account
  const isCode = data.length >= 45 && data[0] === 3 && isSameKey(owner, programs.upgradeableLoader)
  if (!isCode) return account
  const copy = Buffer.from(data)
  copy.writeBigUInt64LE(0n, 4)
  return { ...account, data: copy }
}

async function call(url: string, method: string, params: unknown[]): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const headers = { 'content-type': 'application/json' }
  let text: string
  try {
    const signal = AbortSignal.timeout(callMsMax)
    const response = await fetch(url, { method: 'POST', headers, body, signal })
    text = await response.text()
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
    throw inputFault(`--url: ${url} cannot be reached: ${messageOf(cause)}`)
  }
  const { result, error } = recordOf(parseAccounts(`--url: the answer of ${url}`, text))
  if (error !== undefined)
    throw inputFault(`--url: ${url} refuses ${method}: ${recordOf(error).message}`)
  return result
}
