// RPC methods on accounts: the shared ones, getProgramAccounts, getLargestAccounts, getSupply,
// getMinimumBalanceForRentExemption; and on tokens: getTokenSupply, getTokenLargestAccounts,
// getTokenAccountsByOwner, getTokenAccountsByDelegate.
import type { Commitment } from '../../base/commitment.ts'
import { jsonText } from '../../base/json-text.ts'
import { type Answer, encodedText, failure, rpcErrors } from '../../base/jsonrpc/build.ts'
import { inTurns, whenDone } from '../../base/steps.ts'
import {
  type AccountFilter,
  filtersTake,
  readAccountFilters,
  tokenFilterProblem,
} from '../../chain/solana/account-filter.ts'
import { bytesOf, decodeKey, isSameKey, keyOf, keyText } from '../../chain/solana/base58.ts'
import { accountParser } from '../../chain/solana/json-parsed/accounts.ts'
import { mintUnit } from '../../chain/solana/json-parsed/token-accounts.ts'
import { programs, sysvars } from '../../chain/solana/programs.ts'
import type { TokenUnit, UiTokenAmount } from '../../chain/solana/token-account.ts'
import {
  isTokenProgram,
  readMint,
  readTokenAccount,
  uiTokenAmount,
} from '../../chain/solana/token-account.ts'
import {
  type AccountParser,
  type AccountView,
  sortedAccountText,
} from '../../chain/solana/ui-account.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import {
  accountText,
  accountViewOf,
  type ReadState,
  accountMethods as sharedAccountMethods,
  unitOf,
} from '../../chain/solana-rpc/methods.ts'
import type { Answering, ParamFields, View } from '../../chain/solana-rpc/params.ts'
import {
  answering,
  commitmentViewOf,
  inContext,
  rpcFaults,
  viewOf,
} from '../../chain/solana-rpc/params.ts'
import type { Ledger, LedgerAccount } from '../ledger/ledger.ts'
import type { RpcNode } from './rpc-node.ts'

const largestAccountsCount = 20
const accountBytesMax = 10 * 1024 * 1024

export function accountMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  return {
    ...sharedAccountMethods(node),
    getProgramAccounts: programAccounts(node),
    getLargestAccounts: answering({ least: 0, most: 1 }, (params) => {
      const config = params.config(0, 'RpcLargestAccountsConfig')
      const view = viewOf(config, ledger)
      const filter = config.choice('filter', ['circulating', 'nonCirculating'])
      return () => inContext(node, view.slot, largestText(ledger, view, filter))
    }),
    getSupply: answering({ least: 0, most: 1 }, (params) => {
      const config = params.config(0, 'RpcSupplyConfig')
      const view = viewOf(config, ledger)
      const isListed = config.flag('excludeNonCirculatingAccountsList') !== true
      return () => {
        const total = ledger.supply(view.commitment)
        const { keys, lamports } = nonCirculating(ledger, view.commitment)
        const supply = {
          circulating: total - lamports,
          nonCirculating: lamports,
          nonCirculatingAccounts: isListed ? [...keys].map((key) => keyText(bytesOf(key))) : [],
          total,
        }
        return inContext(node, view.slot, jsonText(supply))
      }
    }),
    getMinimumBalanceForRentExemption: answering({ least: 1, most: 2 }, (params) => {
      const bytes = params.u64(0, 'usize')
      commitmentViewOf(params, 1, ledger)
      return (): Answer =>
        bytes > accountBytesMax
          ? failure(rpcErrors.invalidRequest)
          : encodedText(String(ledger.rentExemptMinimum(bytes)))
    }),
  }
}

function programAccounts(node: RpcNode): Answering {
  const { ledger } = node
  return answering({ least: 1, most: 2 }, (params) => {
    const program = params.key(0)
    const config = params.config(1, 'RpcProgramAccountsConfig')
    const view = viewOf(config, ledger)
    const format = accountViewOf(config, 'binary')
    const filters = filtersOf(config)
    const problem = tokenFilterProblem(program, filters)
    if (problem !== null) params.fail(problem)
    const hasContext = config.flag('withContext') === true
    const isSorted = config.flag('sortResults') !== false
    return () => {
      const found: LedgerAccount[] = []
      for (const account of ledger.accountsByOwner(program, view.commitment))
        if (filtersTake(filters, account)) found.push(account)
      if (isSorted) found.sort((a, b) => Buffer.compare(a.pubkey, b.pubkey))
      const read = (pubkey: Uint8Array) => ledger.account(pubkey, view.commitment)
      const texts = keyedAccountsText(found, format, read, node.shapes)
      return whenDone(texts, (list) => {
        if (list === null) return failure(rpcFaults.base58TooLarge)
        return hasContext ? inContext(node, view.slot, list) : encodedText(list)
      })
    }
  })
}

function largestText(
  ledger: Ledger,
  { commitment }: View,
  filter: 'circulating' | 'nonCirculating' | null,
): string {
  const top: LedgerAccount[] = []
  const locked = filter === null ? null : nonCirculating(ledger, commitment).keys
  for (const account of ledger.accounts(commitment)) {
    if (locked !== null && locked.has(keyOf(account.pubkey)) !== (filter === 'nonCirculating'))
      continue
    if (top.length === largestAccountsCount && account.lamports <= top.at(-1)!.lamports) continue
    const place = top.findIndex(({ lamports }) => lamports < account.lamports)
    top.splice(place < 0 ? top.length : place, 0, account)
    top.length = Math.min(top.length, largestAccountsCount)
  }
  return jsonText(top.map(({ pubkey, lamports }) => ({ address: keyText(pubkey), lamports })))
}

function filtersOf(config: ParamFields): readonly AccountFilter[] {
  const filters = readAccountFilters(config.raw('filters'))
  if (filters.ok) return filters.value
  config.params.fail(filters.refusal.message)
  return []
}

// Lists of accounts in answers, built in turns: a long one must not block the event loop.

/** About a millisecond of work. */
const accountsPerTurn = 256

/** `[{account, pubkey}, …]`; null when one is too long for base58. */
export function keyedAccountsText(
  accounts: readonly LedgerAccount[],
  view: AccountView,
  read: ReadState,
  shapes: Shapes,
): string | null | Promise<string | null> {
  const parse = accountParser(read, shapes)
  const texts = inTurns(accounts, accountsPerTurn, (account) => {
    const text = isParsedToken(account, view)
      ? parsedText(account, view, parse)
      : accountText(account, view, read, { shapes })
    return text && `{"account":${text},"pubkey":"${keyText(account.pubkey)}"}`
  })
  return whenDone(texts, (list) =>
    list.includes(null) ? null : `[${list.filter((text) => text !== '').join(',')}]`,
  )
}

function isParsedToken(account: LedgerAccount, { encoding }: AccountView): boolean {
  return encoding === 'jsonParsed' && isTokenProgram(account.owner)
}

/** Empty for a token account that cannot be parsed: a validator leaves it out of its lists. */
function parsedText(account: LedgerAccount, view: AccountView, parse: AccountParser): string {
  const parsed = parse(account)
  return parsed === null ? '' : sortedAccountText(account, view, () => parsed)
}

// Which lamports do not circulate, as a validator counts them: fixed accounts of mainnet, and
// stakes that are locked up or that mainnet's custodians withdraw.

/** Their keys, as `keyOf` writes them, and their lamports. */
export function nonCirculating(ledger: Ledger, commitment: Commitment) {
  const clock = clockOf(ledger, commitment)
  const keys = new Set(accounts)
  for (const { pubkey, data } of ledger.accountsByOwner(programs.stake, commitment))
    if (isLocked(data, clock)) keys.add(keyOf(pubkey))
  let lamports = 0n
  for (const key of keys) lamports += ledger.account(bytesOf(key), commitment)?.lamports ?? 0n
  return { keys, lamports }
}

const accounts = keysIn(`
  14FUT96s9swbmH7ZjpDvfEDywnAYy9zaNhv4xvezySGu 2WWb1gRzuXDd5viZLQF7pNRR6Y7UiyeaPpaL35X6j3ve
  3ZrsTmNM6AkMcqFfv3ryfhQ2jMfqP64RQbqVyAaxqhrQ 3bTGcGB9F98XxnrBNftmmm48JGfPgi5sYxDEKiCjQYk3
  3fV2GaDKa3pZxyDcpMh5Vrh2FVAMUiWUKbYmnBFv8As3 3iPvAS4xdhYr6SkhVDHCLr7tJjMAFK4wvvHWJxFQVg15
  3itU5ME8L6FDqtMiRoUiT1F7PwbkTtHBbW51YWD5jtjm 3jnknRabs7G2V9dKhxd2KP85pNWXKXiedYnYxtySnQMs
  3o6xgkJ9sTmDeQWyfj3sxwon18fXJB9PV5LDc8sfgR4a 4pV47TiPzZ7SSBPHmgUvSLmH9mMSe8tjyPhQZGbi1zPC
  4sxwau4mdqZ8zEJsfryXq4QFYnMJSCp3HWuZQod8WU5k 4vuWt1oHRqLMhf8Nv1zyEXZsYaeK7dipwrfKLoYU9Riq
  5D5NxsNVTgXHyVziwV7mDFwVDS6voaBsyyGxUbhQrhNW 5PLJZLJiRR9vf7d1JCCg7UuWjtyN9nkab9uok6TqSyuP
  5XdtyEDREHJXXW1CTtCsVjJRjBapAwK78ZquzvnNVRrV 5khMKAcvmsFaAhoKkdg3u5abvKsmjUQNmhTNP624WB1F
  5q54XjQ7vDx4y6KphPeE97LUNiYGtP55spjvXAWPGBuf 5smrYwb1Hr2T8XMnvsqccTgXxuqQs14iuE8RbHFYf2Cf
  63DtkW7zuARcd185EmHAkfF44bDcC2SiTSEj2spLP3iA 6nN69B4uZuESZYxr9nrLDjmKRtjDZQXrehwkfQTKw62U
  6o5v1HC7WhBnLfRHp8mQTtCP2khdXXjhuyGyYEoy2Suy 6yKHERk8rsbmJxvMpPuwPs1ct3hRiP7xaJF2tvnGU6nK
  6zw7em7uQdmMpuS9fGz8Nq9TLHa5YQhEKKwPjo5PwDK4 7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2
  7Y8smnoUrYKGGuDq2uaFKVxJYhojgg7DVixHyAtGTYEV 7cvkjYAkUYs4W8XcXsca7cBrEGFeSUjeZmKoNBvEwyri
  7xJ9CLtEAcEShw9kW2gSoZkRWL566Dg12cvgzANJwbTr 8CUUMKYNGxdgYio5CLHRHyzMEhhVRMcqefgE6dLqnVRK
  8DE8fqPfv1fp9DHyGyDFFaMjpopMgDeXspzoi9jpBJjC 8UVjvYyoqP6sqcctTso3xpCdCfgTMiv3VRh7vraC2eJk
  8W58E8JVJjH1jCy5CeHJQgvwFXTyAVyesuXRZGbcSUGG 8ndGYFjav6NDXvzYcxs449Aub3AxYv4vYpk89zRDwgj7
  8pNBEppa1VcFAsx4Hzq9CpdXUXZjUXbvQwLX2K7QsCwb 8rT45mqpuDBR1vcnDc9kwP9DrZAXDR4ZeuKWw3u1gTGa
  8vqrX3H2BYLaXVintse3gorPEM4TgTwTFZNN1Fm9TdYs 9S2M3UYPpnPZTBtbcUvehYmiWFK3kBhwfzV2iWuwvaVy
  9hknftBZAQL4f48tWfk3bUEV5YSLcYYtDRqNmpNnhCWG 9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA
  9xbcBZoGYFnfJZe81EDuDYKUm8xGkjzW8z4EgnVhNvsv AG3m2bAibcY8raMt4oXEGqRHwX4FWKPPJVjZxn1LySDX
  AVYpwVou2BhdLivAwLxKPALZQsY7aZNkNmGbP2fZw7RU Ab1UcdsFXZVnkSt1Z3vcYU65GQk5MvCbs54SviaiaqHb
  AsrYX4FeLXnZcrjcZmrASY2Eq1jvEeQfwxtNTxS5zojA AzHQ8Bia1grVVbcGyci7wzueSWkgvu7YZVZ4B9rkL5P6
  AzVV9ZZDxTgW4wWfJmsG6ytaHpQGSe1yz76Nyy84VbQF BUjkdqUuH5Lz9XzcMcR4DdEMnFG6r8QzUMBm16Rfau96
  BUnRE27mYXN9p8H1Ay24GXhJC88q2CuwLoNU2v2CrW4W BhvLngiqqKeZ8rpxch2uGjeCiC88zzewoWPRuoxpp1aS
  Br3aeVGapRb2xTq17RU2pYZCoJpWA7bq6TKBCcYtMSmt BsKsunvENxAraBrL77UfAn1Gi7unVEmQAdCbhsjUN6tU
  BuCEvc9ze8UoAQwwsQLy8d447C8sA4zeVtVpc6m5wQeS C7C8odR8oashR5Feyrq2tJKaXL18id1dSj2zbkDGL2C2
  CHmdL15akDcJgBkY6BP3hzs98Dqr6wbdDC5p8odvtSbq CND6ZjRTzaCFVdX7pSSWgjTfHZuhxqFDoUBqWBJguNoA
  CQDYc4ET2mbFhVpgj41gXahL6Exn5ZoPcGAzSHuYxwmE CTvhdUVf8KNyMbyEdnvRrBCHJjBKtQwkbj6zwoqcEssG
  CUageMFi49kzoDqtdU8NvQ4Bq3sbtJygjKDAXJ45nmAi CVgyXrbEd1ctEuvq11QdpnCQVnPit8NLdhyqXQHLprM2
  CWeRmXme7LmbaUWTZWFLt6FMnpzLCHaQLuR2TdgFn4Lq CY7X5o3Wi2eQhTocLmUS6JSWyx1NinBfW7AXRrkRCpi8
  CakcnaRDHka2gXyfbEd2d3xsvkJkqsLw2akB3zsN1D2S CsUqV42gVQLJwQsKyjWHqGkfHarxn9hcY4YeSjgaaeTd
  CuatS6njAcfkFHnvai7zXCs7syA9bykXWsDCJEWfhjHG CzAHrrrHKx9Lxf6wdCMrsZkLvk74c7J2vGv8VYPUmY6v
  DE1bawNcRJB9rVm3buyMVfr8mBEoyyu73NBovf2oXJsJ DQQGPtj7pphPHCLzzBuEyDDQByUcKGrsJdsH7SP3hAug
  DUS1KxwUhUyDKB4A81E8vdnTe3hSahd92Abtn9CXsEcj Dc2oHxFXQaC2QfLStuU7txtD3U5HZ82MrCSGDooWjbsv
  DrKzW5koKSZp4mg4BdHLwr72MMXscd2kTiWgckCvvPXz E8jcgWvrvV7rwYHJThwfiBeQ8VAH4FgNEEMG9aAuCMAq
  EAJJD6nDqtXcZ4DnQb19F9XEz8y8bRDHxbWbahatZNbL EMAY24PrS6rWfvpqffFCsTsFJypeeYYmtUc26wdh3Wup
  EMhn1U3TMimW3bvWYbPUvN2eZnCfsuBN4LGWhzzYhiWR Ep5Y58PaSyALPrdFxDVAdfKtVdP55vApvsWjb3jSmXsG
  Es13uD2p64UVPFpEWfDtd6SERdoNR2XVgqBQBZcZSLqW Eyr9P5XsjK2NUKNCnfu39eqpGoiLFgVAv1LSQgMZCwiQ
  EziVYi3Sv5kJWxmU77PnbrT8jmkVuqwdiFLLzZpLVEn7 F9MWFw8cnYVwsRq8Am1PGfFL3cQUZV37mbGoxZftzLjN
  FR84wZQy3Y3j2gWz6pgETUiUoJtreMEuWfbg6573UCj9 Fg12tB1tz8w6zJSQ4ZAGotWoCztdMJF9hqK8R11pakog
  Fgyh8EeYGZtbW8sS33YmNQnzx54WXPrJ5KWNPkCfWPot FiWYY85b58zEEcPtxe3PuqzWPjqBJXqdwgZeqSBmT9Cn
  FwfaykN7ACnsEUDHANzGHqTGQZMcGnUSsahAHUqbdPrz GEWSkfWgHkpiLbeKaAnwvqnECGdRNf49at5nFccVey7c
  GK2zqSsXLA2rwVZk347RYhh6jJpRsCA69FjLW93ZGi3B GK8R4uUmrawcREZ5xJy5dAzVV5V7aFvYg77id37pVTK
  GLUmCeJpXB8veNcchPwibkRYwCwvQbKodex5mEjrgToi GNiz4Mq886bTNDT3pijGsu2gbw6it7sqrwncro45USeB
  GdnSyH3YtwcxFvQrVVJMm1JhTS4QVX7MFsX56uJLUfiZ GhsotwFMH6XUrRLJCxcx62h7748N2Uq8mf87hUGkmPhg
  GmyW1nqYcrw7P7JqrcyP9ivU9hYNbrgZ1r5SYJJH41Fs GpYnVDgB7dzvwSgsjQFeHznjG6Kt1DLBFYrKxjGU1LuD
  GpxpMVhrBBBEYbEJxdR62w3daWz444V7m6dxYDZKH77D GumSE5HsMV5HCwBTv2D2D81yy9x17aDkvobkqAfTRgmo
  GvpCiTgq9dmEeojCDBivoLoZqc4AkbUDACpqPMwYLWKh H1rt8KvXkNhQExTRfkY8r9wjZbZ8yCih6J4wQ5Fz9HGP
  H3Ni7vG1CsmJZdTvxF7RkAf9UM5qk4RsohJsmPvtZNnu HCV5dGFJXRrJ3jhDYA4DCeb9TEDTwGGYXtT3wHksu2Zr
  HKJgYGTTYYR2ZkfJKHbn58w676fKueQXmvbtpyvrSM3N HQJtLqvEGGxgNYfRXUurfxV8E1swvCnsbC3456ik27HY
  HUAkU5psJXZuw54Lrg1ksbXzHv2fzczQ9sNbmisVMeJU HbZ5FfmKWNHC7uwk6TF1hVi6TCs7dtYfdjEcuPGgzFAg
  Hm9JW7of5i9dnrboS8pCUCSeoQUPh7JsP1rkbJnW7An4 HuqDWJodFhAEWh6aWdsDVUqsjRket5DYXMYyDYtD8hdN
  Hz9nydgN1k15wnwffKX7CSmZp4VFTnTwLXAEdomFGNXy JCwT5Ygmq3VeBEbDjL8s8E82Ra2rP9bq45QfZE7Xyaq7
  Mc5XB47H3DKJHym5RLa9mPzWv5snERsF3KNv5AauXK8 P8aKfWQPeRnsZtpBrwWTYzyAoRk74KMz56xc6NEpC4J
  nGME7HgBT6tAJN1f6YuCCngpqT5cvSTndZUVLjQ4jwA xQadXQiUTCCFhfHjvQx1hyJK6KVWr1w2fD6DT3cdwj7
`)

const withdrawers = keysIn(`
  3FFaheyqtyAXZSYxDzsr5CVKvJuvZD1WE1VEsBtDbRqB 4ZJhPQAgUseCsWhKvJLTmmRRUV74fdoTpQLNfKoekbPY
  4e6KwQpyzGQPfgVr5Jn3g5jLjbXB4pKPa2jRLohEb1QA 8CUUMKYNGxdgYio5CLHRHyzMEhhVRMcqefgE6dLqnVRK
  Bj3aQ2oFnZYfNR1njzRjmWizzuhvfcYLckh76cqsbuBM DwbVjia1mYeSGoJipzhaf4L5hfer2DJ1Ys681VzQm5YY
  FdGYQdiRky8NZzN9wZtczTBcWLYYRXrJ3LMDhqDPn5rM FjiEiVKyMGzSLpqoB27QypukUfyWHrwzPcGNtopzZVdh
  GeMGyvsTEsANVvcT5cme65Xq5MVU8fVVzMQ13KAZFNS2 HXdYQ5gixrY2H6Y9gqsD8kPM2JQKSaRiohDQtLbZkRWE
`)

/** Bytes of a stake account: tag u32 | reserve u64 | staker | withdrawer | lockup. */
const stakeTags: ReadonlySet<number> = new Set([1, 2])
const withdrawerAt = 44
const lockupTimeAt = 76
const lockupEpochAt = 84
const lockupEnd = 92
const clockBytes = 40

function isLocked(data: Uint8Array, clock: Clock): boolean {
  if (data.length < lockupEnd) return false
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length)
  if (!stakeTags.has(bytes.readUInt32LE(0))) return false
  return (
    bytes.readBigInt64LE(lockupTimeAt) > clock.unixTimestamp ||
    bytes.readBigUInt64LE(lockupEpochAt) > clock.epoch ||
    withdrawers.has(keyOf(data.subarray(withdrawerAt, lockupTimeAt)))
  )
}

interface Clock {
  readonly epoch: bigint
  readonly unixTimestamp: bigint
}

/** The Clock sysvar: slot | start of the epoch | epoch | epoch of the schedule | time. */
function clockOf(ledger: Ledger, commitment: Commitment): Clock {
  const account = ledger.account(sysvars.clock, commitment)
  const bytes = Buffer.from(account?.data ?? new Uint8Array(clockBytes))
  return { epoch: bytes.readBigUInt64LE(16), unixTimestamp: bytes.readBigInt64LE(32) }
}

function keysIn(texts: string): ReadonlySet<string> {
  return new Set(texts.split(/\s+/).flatMap((text) => (text === '' ? [] : keyOf(decodeKey(text)!))))
}

const tokenAccountsFilters = { mint: true, programId: true }

export function tokenMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  const readerAt = (view: View) => (pubkey: Uint8Array) => ledger.account(pubkey, view.commitment)
  return {
    getTokenSupply: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = commitmentViewOf(params, 1, ledger)
      const account = ledger.account(key, view.commitment)
      if (account === null) params.fail('Invalid param: could not find account')
      else if (!isTokenProgram(account.owner)) params.fail('Invalid param: not a Token mint')
      const mint = account === null ? null : readMint(account.owner, account.data)
      if (mint === null) params.fail('Invalid param: mint could not be unpacked')
      const unit = account === null ? null : mintUnit(account, readerAt(view))
      return () => inContext(node, view.slot, jsonText(shown(mint!.supply, unit!)))
    }),
    getTokenLargestAccounts: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const view = commitmentViewOf(params, 1, ledger)
      const unit = unitOf(params, key, readerAt(view))
      return () =>
        inContext(node, view.slot, jsonText(largestOf(ledger, { key, unit: unit! }, view)))
    }),
    getTokenAccountsByOwner: tokenAccountsBy('owner'),
    getTokenAccountsByDelegate: tokenAccountsBy('delegate'),
  }

  function tokenAccountsBy(index: 'owner' | 'delegate'): Answering {
    return answering({ least: 2, most: 3 }, (params) => {
      const holder = params.key(0)
      const filter = params.variant(1, tokenAccountsFilters)
      const config = params.config(2, 'RpcAccountInfoConfig')
      const view = viewOf(config, ledger)
      const format = accountViewOf(config, 'binary')
      const key = params.keyOf(params.textOf(filter?.content))
      const isByMint = filter?.name === 'mint'
      if (isByMint) unitOf(params, key, readerAt(view))
      else if (!isTokenProgram(key)) params.fail('Invalid param: unrecognized Token program id')
      return () => {
        const found: LedgerAccount[] = []
        for (const account of ledger.tokenAccounts(index, holder, view.commitment))
          if (isSameKey(isByMint ? account.data.subarray(0, 32) : account.owner, key))
            found.push(account)
        found.sort((a, b) => Buffer.compare(a.pubkey, b.pubkey))
        const texts = keyedAccountsText(found, format, readerAt(view), node.shapes)
        return whenDone(texts, (list) =>
          list === null ? failure(rpcFaults.base58TooLarge) : inContext(node, view.slot, list),
        )
      }
    })
  }
}

function shown(amount: bigint, { decimals, scaled }: TokenUnit): UiTokenAmount {
  return uiTokenAmount(amount, decimals, scaled)
}

function largestOf(ledger: Ledger, mint: { key: Uint8Array; unit: TokenUnit }, view: View) {
  const held: { pubkey: Uint8Array; amount: bigint }[] = []
  for (const { pubkey, owner, data } of ledger.tokenAccounts('mint', mint.key, view.commitment)) {
    const token = readTokenAccount(owner, data)
    if (token !== null) held.push({ pubkey, amount: token.amount })
  }
  held.sort((a, b) =>
    a.amount === b.amount ? Buffer.compare(b.pubkey, a.pubkey) : a.amount < b.amount ? 1 : -1,
  )
  return held
    .slice(0, largestAccountsCount)
    .map(({ pubkey, amount }) => ({ address: keyText(pubkey), ...shown(amount, mint.unit) }))
}
