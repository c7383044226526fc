// RPC methods that submit transactions: sendTransaction, simulateTransaction, requestAirdrop,
// getFeeForMessage; and cheat codes. Thread: main of the devnode.
//
//   text -> decode strictly -> simulate (verifies signatures) -> submit -> signature
import { randomUUID } from 'node:crypto'
import { Commitment, commitmentNames } from '../../base/commitment.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { jsonText, ReadyJson } from '../../base/json-text.ts'
import type { Answer, RpcError } from '../../base/jsonrpc/build.ts'
import { encodedText, failure, rpcErrors, value } from '../../base/jsonrpc/build.ts'
import { encodeBase58, keyText } from '../../chain/solana/base58.ts'
import { parsedInstruction } from '../../chain/solana/json-parsed/instructions.ts'
import { programs } from '../../chain/solana/programs.ts'
import { type DecodeProblem, TransactionLayout } from '../../chain/solana/transaction.ts'
import { type AccountEncoding, accountEncodings } from '../../chain/solana/ui-account.ts'
import { loadedText, returnDataText, tokenBalanceText } from '../../chain/solana/ui-transaction.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import { accountText } from '../../chain/solana-rpc/methods.ts'
import type { Answering, ParamFields, Params } from '../../chain/solana-rpc/params.ts'
import {
  answering,
  inContext,
  invalidParams,
  refusalError,
  viewOf,
} from '../../chain/solana-rpc/params.ts'
import type { CheatCodes, Destination, TokenChange } from '../chain.ts'
import { isSameState, type LedgerAccount } from '../ledger/ledger.ts'
import type { Simulated } from '../producer.ts'
import type { VmAccount } from '../svm.ts'
import { transactionErrorText } from '../transaction-error-text.ts'
import type { WireTransaction } from './blocks.ts'
import { bytesOfText, messageName, problemError, versionOne, wireTransactionOf } from './blocks.ts'
import { epochInfoOf } from './cluster.ts'
import type { NodeSwitch, RpcNode } from './rpc-node.ts'

const sendEncodings = ['binary', 'base64', 'base58', 'json', 'jsonParsed'] as const

export function submitMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { chain, ledger, shapes } = node
  return {
    sendTransaction: answering({ least: 1, most: 2 }, (params) => {
      const config = params.config(1, 'RpcSendTransactionConfig')
      const wire = readWire(params, config, shapes)
      const isPreflight = config.flag('skipPreflight') !== true
      config.choice('preflightCommitment', commitmentNames)
      config.u64('maxRetries', 'usize')
      // Transactions run on the newest state, whatever the preflight commitment is.
      viewOf(config, ledger, Commitment.processed)
      return () => send(wire!, isPreflight)
    }),
    simulateTransaction: answering({ least: 1, most: 2 }, (params) => {
      const config = params.config(1, 'RpcSimulateTransactionConfig')
      const mustVerify = config.flag('sigVerify') === true
      const isBlockhashReplaced = config.flag('replaceRecentBlockhash') === true
      const hasCalls = config.flag('innerInstructions') === true
      const asked = config.fields('accounts', 'RpcSimulateTransactionAccountsConfig')
      const wire = readWire(params, config, shapes)
      viewOf(config, ledger, Commitment.processed)
      if (mustVerify && isBlockhashReplaced)
        params.fail('sigVerify may not be used with replaceRecentBlockhash')
      const accounts = asked === null ? null : readAccounts(asked, wire?.keyCount ?? 0)
      return () => {
        const outcome = chain.simulate(wire!.bytes, { isBlockhashReplaced, mustVerify })
        if (!outcome.ok) return failure(refusalError(outcome.refusal))
        const simulated = outcome.value
        // A transaction that failed changes nothing that could be shown: its keys are not read.
        const keys = accounts?.addresses.map((text) =>
          simulated.err === null ? params.keyOf(text) : null,
        )
        if (params.problem !== null) return failure(params.problem)
        const after = accounts && { encoding: accounts.encoding, keys: keys! }
        const shown = { keys: wire!.keys, hasCalls, accounts: after }
        return inContext(node, simulated.slot, simulatedText(simulated, shown, shapes))
      }
    }),
    requestAirdrop: answering({ least: 2, most: 3 }, (params) => {
      const to = params.key(0)
      const lamports = params.exactU64(1)
      const config = params.config(2, 'RpcRequestAirdropConfig')
      const blockhash = config.text('recentBlockhash')
      const hash = blockhash === null ? null : params.keyOf(blockhash)
      viewOf(config, ledger)
      return () => {
        const outcome = chain.requestAirdrop(to, BigInt(lamports), hash)
        return outcome.ok
          ? encodedText(`"${encodeBase58(outcome.value)}"`)
          : failure(refusalError(outcome.refusal))
      }
    }),
    getFeeForMessage: answering({ least: 1, most: 2 }, (params) => {
      const message = bytesOfText(params.text(0), 'base64', { name: messageName, shapes })
      if ('code' in message) params.refuse(message)
      const view = viewOf(params.config(1, 'RpcContextConfig'), ledger)
      const fee: Outcome<bigint | null> | null =
        'code' in message
          ? null
          : !shapes.transactionV1 && message[0] === versionOne
            ? refuse('invalid', 'unsupported-version', 'version 1')
            : chain.feeForMessage(message, view.commitment)
      // Reason for the casts: only a message that was decoded has a fee, and the code says why not.
      if (fee?.ok === false)
        params.refuse(
          problemError(fee.refusal.code as DecodeProblem, message as Uint8Array, messageName),
        )
      return () => inContext(node, view.slot, fee?.ok === true ? String(fee.value) : 'null')
    }),
  }

  function send(wire: WireTransaction, isPreflight: boolean): Answer {
    if (isPreflight) {
      const options = { isBlockhashReplaced: false, mustVerify: true }
      const outcome = chain.simulate(wire.bytes, options)
      if (!outcome.ok) return failure(refusalError(outcome.refusal))
      if (outcome.value.err !== null) return failure(preflightFailure(outcome.value))
    }
    const submitted = chain.submit(wire.bytes, { isVerified: isPreflight })
    // A validator forwards and answers before it knows: a rejection is not reported.
    if (!submitted.ok && submitted.refusal.kind !== 'rejected')
      return failure(refusalError(submitted.refusal))
    return encodedText(`"${encodeBase58(wire.signature)}"`)
  }
}

function readWire(params: Params, config: ParamFields, shapes: Shapes): WireTransaction | null {
  const text = params.text(0)
  const encoding = config.choice('encoding', sendEncodings) ?? 'base58'
  if (encoding === 'json' || encoding === 'jsonParsed')
    params.fail(`unsupported encoding: ${encoding}. Supported encodings: base58, base64`)
  if (params.problem !== null) return null
  const wire = wireTransactionOf(text, encoding === 'base64' ? 'base64' : 'base58', shapes)
  if ('bytes' in wire) return wire
  params.refuse(wire)
  return null
}

/** `accounts` of a simulation: which to show afterwards, and how. */
function readAccounts(
  asked: ParamFields,
  most: number,
): { encoding: AskedAccounts['encoding']; addresses: readonly string[] } {
  const { params } = asked
  const options = ['binary', 'base58', 'base64', 'jsonParsed', 'base64+zstd'] as const
  const encoding = asked.choice('encoding', options) ?? 'base64'
  const addresses = asked.list('addresses') ?? []
  for (const text of addresses) if (typeof text !== 'string') params.mismatch(text, 'a string')
  const isBase58 = encoding === 'binary' || encoding === 'base58'
  if (isBase58) params.fail('base58 encoding not supported')
  if (addresses.length > most) params.fail(`Too many accounts provided; max ${most}`)
  return { encoding: isBase58 ? 'base64' : encoding, addresses: addresses.map(String) }
}

// Formats a simulation for simulateTransaction and for a failed preflight.

/** Accounts to show as they would be afterwards; null keys for none. */
interface AskedAccounts {
  readonly encoding: 'base64' | 'base64+zstd' | 'jsonParsed'
  readonly keys: readonly (Uint8Array | null)[]
}

const preflightFailed = -32002
/** As all answers. */
const sorted = { isSorted: true }

function preflightFailure(simulated: Simulated): RpcError {
  const { err } = simulated
  return {
    code: preflightFailed,
    message: `Transaction simulation failed: ${transactionErrorText(err!)}`,
    data: {
      accounts: null,
      err,
      // Far below 2^53, as the units.
      fee: simulated.fee === null ? null : Number(simulated.fee),
      innerInstructions: null,
      loadedAccountsDataSize: simulated.loadedAccountsDataSize,
      loadedAddresses: null,
      logs: simulated.logs,
      postBalances: null,
      postTokenBalances: null,
      preBalances: null,
      preTokenBalances: null,
      replacementBlockhash: null,
      returnData: JSON.parse(returnDataText(simulated.returnData, sorted)),
      unitsConsumed: Number(simulated.unitsConsumed),
    },
  }
}

/** `keys` are the static ones of the transaction. */
function simulatedText(
  simulated: Simulated,
  shown: {
    readonly keys: readonly Uint8Array[]
    readonly hasCalls: boolean
    readonly accounts: AskedAccounts | null
  },
  shapes: Shapes,
): string {
  const { loadedWritableAddresses, loadedReadonlyAddresses } = simulated
  const keys = [...shown.keys, ...loadedWritableAddresses, ...loadedReadonlyAddresses]
  const { balances } = simulated
  const tokens = (which: 'preTokenBalances' | 'postTokenBalances') =>
    balances &&
    new ReadyJson(`[${balances[which].map((one) => tokenBalanceText(one, sorted)).join(',')}]`)
  return jsonText({
    accounts: shown.accounts === null ? null : accountsAfter(simulated, shown.accounts, shapes),
    err: simulated.err,
    fee: simulated.fee,
    innerInstructions: shown.hasCalls ? calls(simulated, keys, shapes) : null,
    loadedAccountsDataSize: simulated.loadedAccountsDataSize,
    loadedAddresses: new ReadyJson(loadedText(simulated, sorted)),
    logs: simulated.logs,
    postBalances: balances?.postBalances ?? null,
    postTokenBalances: tokens('postTokenBalances'),
    preBalances: balances?.preBalances ?? null,
    preTokenBalances: tokens('preTokenBalances'),
    replacementBlockhash: simulated.replacementBlockhash,
    returnData: new ReadyJson(returnDataText(simulated.returnData, sorted)),
    unitsConsumed: simulated.unitsConsumed,
  })
}

function calls({ innerInstructions }: Simulated, keys: readonly Uint8Array[], shapes: Shapes) {
  if (innerInstructions === null) return null
  return innerInstructions.map(({ index, instructions }) => ({
    index,
    instructions: instructions.map((instruction) =>
      parsedInstruction(instruction, keys, instruction.stackHeight ?? null, shapes),
    ),
  }))
}

function accountsAfter(
  simulated: Simulated,
  { keys, encoding }: AskedAccounts,
  shapes: Shapes,
): unknown[] {
  return keys.map((key) => {
    const account = key === null ? null : simulated.account(key)
    if (account === null) return null
    const read = (pubkey: Uint8Array) => simulated.account(pubkey)
    const view = { encoding, dataSlice: null }
    return new ReadyJson(accountText(account, view, read, { shapes })!)
  })
}

// Cheat codes as JSON-RPC methods, with the names, params and results of surfpool.
// The devnode alone has them: a gateway refuses every method of this name.

const tokenStates = ['uninitialized', 'initialized', 'frozen']
const hourMs = 3_600_000

export function surfnetMethods(
  node: RpcNode,
  cheats: CheatCodes,
): Readonly<Record<string, Answering>> {
  return {
    ...accountCheats(node, cheats),
    ...clockCheats(node, cheats),
    surfnet_profileTransaction: answering({ least: 1, most: 3 }, (params) => {
      const wire = wireTransactionOf(params.text(0), 'base64', node.shapes)
      if (!('bytes' in wire)) params.refuse(wire)
      const config = params.config(2, 'RpcProfileResultConfig')
      const encoding = config.choice('encoding', accountEncodings) ?? 'jsonParsed'
      const isDeep = config.choice('depth', ['transaction', 'instruction']) !== 'transaction'
      return () => {
        if (!('bytes' in wire)) return failure(wire)
        const profile = profileText(node, wire, { encoding, key: randomUUID(), isDeep })
        if (!profile.ok) return failure(refusalError(profile.refusal))
        return inContext(node, node.ledger.slot(Commitment.processed), profile.value)
      }
    }),
  }
}

function accountCheats(node: RpcNode, cheats: CheatCodes): Readonly<Record<string, Answering>> {
  const nothing = () => inContext(node, node.ledger.slot(Commitment.processed), 'null')
  const answer = (outcome: Outcome<null>) => answerOf(outcome, nothing)
  return {
    surfnet_setAccount: answering({ least: 2, most: 2 }, (params) => {
      const key = params.key(0)
      const change = accountChange(params, params.config(1, 'AccountUpdate'))
      return () => answer(cheats.setAccount(key, change))
    }),
    surfnet_setTokenAccount: answering({ least: 3, most: 4 }, (params) => {
      const owner = params.key(0)
      const mint = params.key(1)
      const change = tokenChange(params, params.config(2, 'TokenAccountUpdate'))
      const program = params.at(3) === null ? programs.token : params.key(3)
      return () => answer(cheats.setTokenAccount({ owner, mint, program }, change))
    }),
    surfnet_cloneProgramAccount: answering({ least: 2, most: 2 }, (params) => {
      const [source, destination] = [params.key(0), params.key(1)]
      return () => answer(cheats.cloneProgram(source, destination))
    }),
    surfnet_setProgramAuthority: answering({ least: 1, most: 2 }, (params) => {
      const program = params.key(0)
      const authority = params.at(1) === null ? null : params.key(1)
      return () => answer(cheats.setProgramAuthority(program, authority))
    }),
    surfnet_resetAccount: answering({ least: 1, most: 2 }, (params) => {
      const key = params.key(0)
      const config = params.config(1, 'ResetAccountConfig')
      const isWithOwned = config.flag('includeOwnedAccounts') === true
      return async () => answer(await cheats.resetAccount(key, isWithOwned))
    }),
    surfnet_resetNetwork: answering({ least: 0, most: 0 }, () => async () => {
      return answer(await cheats.resetNetwork())
    }),
  }
}

function clockCheats(node: RpcNode, cheats: CheatCodes): Readonly<Record<string, Answering>> {
  return {
    surfnet_pauseClock: answering({ least: 0, most: 0 }, () => () => {
      cheats.pause()
      return epochInfo(node)
    }),
    surfnet_resumeClock: answering({ least: 0, most: 0 }, () => () => {
      cheats.resume()
      return epochInfo(node)
    }),
    surfnet_timeTravel: answering({ least: 0, most: 1 }, (params) => {
      const to = destinationOf(params, params.config(0, 'TimeTravelConfig'))
      return () => answerOf(cheats.travel(to), () => epochInfo(node))
    }),
  }
}

/** Cheat codes of a cluster: nodes are numbered from 1, and the one that is asked stays. */
export function switchMethods(of: {
  readonly switches: NodeSwitch
  readonly index: number
}): Readonly<Record<string, Answering>> {
  const { switches, index: own } = of
  const turning = (turn: (node: number) => Promise<void>) =>
    answering({ least: 1, most: 1 }, (params) => {
      const node = params.u64(0) - 1
      if (node < 0 || node >= switches.count || node === own)
        params.fail(`node must be another one of 1 to ${switches.count}`)
      return async () => {
        await turn(node)
        return value(null)
      }
    })
  return {
    surfnet_stopNode: turning((node) => switches.turnOff(node)),
    surfnet_startNode: turning((node) => switches.turnOn(node)),
  }
}

function answerOf(outcome: Outcome<null>, answer: () => Answer): Answer {
  if (outcome.ok) return answer()
  const { kind, message } = outcome.refusal
  if (kind === 'invalid') return failure(invalidParams(message))
  return failure({ ...rpcErrors.internal, data: message })
}

function epochInfo({ ledger }: RpcNode): Answer {
  return epochInfoOf(ledger, Commitment.processed)
}

function accountChange(params: Params, fields: ParamFields): Partial<VmAccount> {
  const lamports = fields.exactU64('lamports')
  const owner = fields.text('owner')
  const executable = fields.flag('executable')
  const rentEpoch = fields.exactU64('rentEpoch')
  const hex = fields.text('data')
  const data = hex === null ? null : hexBytes(params, hex)
  return {
    ...(lamports === null ? {} : { lamports: BigInt(lamports) }),
    ...(owner === null ? {} : { owner: params.keyOf(owner) }),
    ...(executable === null ? {} : { executable }),
    ...(rentEpoch === null ? {} : { rentEpoch: BigInt(rentEpoch) }),
    ...(data === null ? {} : { data }),
  }
}

function hexBytes(params: Params, text: string): Buffer {
  const wrong = text.search(/[^0-9a-fA-F]/)
  if (wrong >= 0)
    params.fail(
      `Invalid hex data provided: Invalid character '${text[wrong]}' at position ${wrong}`,
    )
  else if (text.length % 2 === 1) params.fail('Invalid hex data provided: Odd number of digits')
  return Buffer.from(text, 'hex')
}

function tokenChange(params: Params, fields: ParamFields): TokenChange {
  const amount = fields.exactU64('amount')
  const delegatedAmount = fields.exactU64('delegatedAmount')
  const stateName = fields.text('state')
  const state = stateName === null ? null : tokenStates.indexOf(stateName)
  if (state === -1) params.fail(`Invalid token account state ${stateName}`)
  const key = (name: string) => {
    const text = fields.text(name)
    return text === null || text === 'null' ? null : params.keyOf(text)
  }
  return {
    ...(amount === null ? {} : { amount: BigInt(amount) }),
    ...(delegatedAmount === null ? {} : { delegatedAmount: BigInt(delegatedAmount) }),
    ...(state === null ? {} : { state }),
    ...(fields.raw('delegate') === null ? {} : { delegate: key('delegate') }),
    ...(fields.raw('closeAuthority') === null ? {} : { closeAuthority: key('closeAuthority') }),
  }
}

/** One of three fields; without a config an hour from now. */
function destinationOf(params: Params, fields: ParamFields): Destination {
  const slot = fields.u64('absoluteSlot')
  if (slot !== null) return { slot }
  const epoch = fields.u64('absoluteEpoch')
  if (epoch !== null) return { epoch }
  const timeMs = fields.u64('absoluteTimestamp')
  if (timeMs === null && params.at(0) !== null)
    params.fail('one of absoluteSlot, absoluteEpoch and absoluteTimestamp is needed')
  return { timeMs: timeMs ?? Date.now() + hourMs }
}

// The profile of a transaction: what it would change and consume, as surfpool shows it.
// Nothing is kept.
// An instruction's profile is the difference of the transactions that end with it and before it.

const layout = new TransactionLayout({ v1: true })
/** Whose count is one byte. */
const instructionsMax = 127
const base64 = { encoding: 'base64', dataSlice: null } as const

/** An account at a moment; null when it does not exist. */
type ReadLedger = (pubkey: Uint8Array) => LedgerAccount | null

/** How accounts are shown. */
interface Form {
  readonly encoding: AccountEncoding
  readonly shapes: Shapes
}

/** The state after a number of instructions, and what they took. */
interface Stage {
  readonly read: ReadLedger
  readonly units: bigint
  readonly logCount: number
}

/** `key`: the id of the profile. Refused `invalid` for bytes that the chain cannot read. */
function profileText(
  { chain, ledger, shapes }: RpcNode,
  wire: WireTransaction,
  view: { readonly encoding: AccountEncoding; readonly key: string; readonly isDeep: boolean },
): Outcome<string> {
  const options = { isBlockhashReplaced: true, mustVerify: false }
  const outcome = chain.simulate(wire.bytes, options)
  if (!outcome.ok) return outcome
  const simulated = outcome.value
  layout.decode(wire.bytes)
  const { loadedWritableAddresses, loadedReadonlyAddresses } = simulated
  const keys = [...wire.keys, ...loadedWritableAddresses, ...loadedReadonlyAddresses]
  const before: ReadLedger = (pubkey) => ledger.account(pubkey, Commitment.processed)
  const first: Stage = { read: before, units: 0n, logCount: 0 }
  const { encoding, key } = view
  const form: Form = { encoding, shapes }
  const profile = (from: Stage, run: Simulated, indexes: Iterable<number>) =>
    difference(from, run, { keys, indexes, form })
  const prefixes = view.isDeep ? prefixesOf(wire.bytes) : []
  const instructions: unknown[] = []
  let stage = first
  for (const { bytes, indexes } of prefixes) {
    const part = chain.simulate(bytes, options)
    if (!part.ok) return part
    instructions.push(profile(stage, part.value, indexes))
    stage = stageAfter(stage, part.value)
  }
  const fixed = [...keys.keys()].filter((index) => !layout.isWritable(index))
  const shownFixed = fixed.map((index) => [keyText(keys[index]!), before(keys[index]!)] as const)
  const readonly = shownFixed.filter(([, account]) => account !== null)
  return accept(
    jsonText({
      slot: simulated.slot,
      key,
      instructionProfiles: instructions.length === 0 ? undefined : instructions,
      transactionProfile: profile(first, simulated, keys.keys()),
      readonlyAccountStates: Object.fromEntries(
        readonly.map(([name, account]) => [name, shown(account, before, form)]),
      ),
    }),
  )
}

/** The transactions of the first instruction, of the first two, and so on. */
function prefixesOf(bytes: Uint8Array): { bytes: Uint8Array; indexes: Set<number> }[] {
  const { instructionCount: count, version, blockhashAt, dataAt, dataLength } = layout
  if (version === 1 || count > instructionsMax) return []
  const head = bytes.subarray(0, blockhashAt + 32)
  const endOf = (index: number) => dataAt[index]! + dataLength[index]!
  const tail = bytes.subarray(endOf(count - 1))
  return Array.from({ length: count }, (_, last) => {
    const body = bytes.subarray(blockhashAt + 33, endOf(last))
    const accountsAt = layout.accountsAt[last]!
    const accounts = bytes.subarray(accountsAt, accountsAt + layout.accountsCount[last]!)
    return {
      bytes: Buffer.concat([head, Uint8Array.of(last + 1), body, tail]),
      indexes: new Set([...accounts, layout.programIndex[last]!]),
    }
  })
}

function stageAfter(from: Stage, { err, account, unitsConsumed, logs }: Simulated): Stage {
  return { read: err === null ? account : from.read, units: unitsConsumed, logCount: logs.length }
}

function difference(
  from: Stage,
  run: Simulated,
  of: {
    readonly keys: readonly Uint8Array[]
    readonly indexes: Iterable<number>
    readonly form: Form
  },
) {
  const to = stageAfter(from, run)
  const accountStates: Record<string, unknown> = {}
  for (const index of of.indexes) {
    const pubkey = of.keys[index]!
    accountStates[keyText(pubkey)] = layout.isWritable(index)
      ? { type: 'writable', accountChange: changeOf(pubkey, [from.read, to.read], of.form) }
      : { type: 'readonly' }
  }
  return {
    accountStates,
    computeUnitsConsumed: to.units - from.units,
    logMessages: run.logs.slice(from.logCount),
    errorMessage: run.err === null ? null : transactionErrorText(run.err),
  }
}

function changeOf(
  pubkey: Uint8Array,
  [before, after]: readonly [ReadLedger, ReadLedger],
  form: Form,
) {
  const [old, fresh] = [before(pubkey), after(pubkey)]
  const was = shown(old, before, form)
  if (isSameState(old, fresh)) return { type: 'unchanged', data: was }
  const is = shown(fresh, after, form)
  if (old === null) return { type: 'create', data: is }
  return fresh === null ? { type: 'delete', data: was } : { type: 'update', data: [was, is] }
}

function shown(account: LedgerAccount | null, read: ReadLedger, form: Form) {
  if (account === null) return null
  const text = accountText(account, { encoding: form.encoding, dataSlice: null }, read, form)
  return new ReadyJson(text ?? accountText(account, base64, read, form)!)
}
