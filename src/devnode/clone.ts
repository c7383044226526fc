// Copies accounts from another node by JSON-RPC, for the first block of the devnode.
// Thread: main of the devnode.
import { messageOf } from '../base/errors.ts'
import { keyText } from '../chain/solana/key-text.ts'
import { isSameKey } from '../chain/solana/keys.ts'
import { programs } from '../chain/solana/programs.ts'
import type { VmAccount } from './executed.ts'
import { accountOf, inputFault, keyGiven, parseAccounts, recordOf } from './genesis-files.ts'

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
