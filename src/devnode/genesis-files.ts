// Reads accounts, programs and keys from the files that flags name. Thread: main of the devnode.
// Accounts are as `solana account --output json` writes them, programs are ELF files.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Fault } from '../base/errors.ts'
import { decodeBase58, decodeKey } from '../chain/solana/base58.ts'
import { findProgramAddress } from '../chain/solana/program-address.ts'
import { programs } from '../chain/solana/programs.ts'
import type { VmAccount } from './executed.ts'
import { rentExemptMinimum } from './rent.ts'

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
