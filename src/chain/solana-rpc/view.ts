// The commitment at which a call reads a chain, and the context of its answer.
import { Commitment, commitmentNamed, commitmentNames } from '../../base/commitment.ts'
import { type Answer, encodedText, failure } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import type { SlotReads } from './chain-reads.ts'
import { rpcFaults } from './errors.ts'
import { type ParamFields, Params } from './params.ts'

/** One method: reads its params, then answers. */
export type Answering = (call: Call) => Answer | Promise<Answer>

type Slots = Pick<SlotReads, 'slot' | 'stateSlot'>

export interface View {
  readonly commitment: Commitment
  readonly slot: number
}

/** `commitment` of a config; finalized when it is absent or unknown, as on a validator. */
export function commitmentOf(
  fields: ParamFields,
  fallback: Commitment = Commitment.finalized,
): Commitment {
  return commitmentNamed(fields.raw('commitment')) ?? fallback
}

/** For reads of state: accounts, statuses. Processed sees the open slot. */
export function viewOf(
  fields: ParamFields,
  chain: Slots,
  fallback: Commitment = Commitment.finalized,
): View {
  const commitment = commitmentOf(fields, fallback)
  const slot = chain.stateSlot(commitment)
  checkMinContext(fields, slot)
  return { commitment, slot }
}

/** For reads of slots, heights and blockhashes: those of the newest complete slot. */
export function slotViewOf(fields: ParamFields, chain: Slots): View {
  const commitment = commitmentOf(fields)
  // A caller may have the slot from a read of state.
  checkMinContext(fields, chain.stateSlot(commitment))
  return { commitment, slot: chain.slot(commitment) }
}

/** For methods whose config is a commitment and nothing else: an object must name it. */
export function commitmentViewOf(params: Params, index: number, chain: Slots): View {
  const fields = params.config(index, 'CommitmentConfig')
  if (params.at(index) !== null) fields.require('commitment')
  fields.choice('commitment', commitmentNames)
  return viewOf(fields, chain)
}

/** For methods on the history, which begins at confirmed. */
export function historyViewOf(fields: ParamFields, chain: Slots): View {
  if (commitmentOf(fields) === Commitment.processed)
    fields.params.fail('Method does not support commitment below `confirmed`')
  return slotViewOf(fields, chain)
}

function checkMinContext(fields: ParamFields, slot: number): void {
  const least = fields.u64('minContextSlot')
  if (least !== null && slot < least) fields.params.refuse(rpcFaults.minContextSlot(slot))
}

/** Reads the params of a call and answers; a problem with them ends it first. */
export function answering(
  arity: { readonly least: number; readonly most: number },
  read: (params: Params) => () => Answer | Promise<Answer>,
): Answering {
  return (call) => {
    const params = new Params(call, arity)
    if (params.problem !== null) return failure(params.problem)
    const answer = read(params)
    return params.problem === null ? answer() : failure(params.problem)
  }
}

/** `{context, value}` around a value that is JSON already. */
export function inContext(
  node: { readonly apiVersion: string },
  slot: number,
  value: string,
): Answer {
  return encodedText(
    `{"context":{"apiVersion":"${node.apiVersion}","slot":${slot}},"value":${value}}`,
  )
}
