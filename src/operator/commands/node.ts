// `sluice node drain|resume`: takes a node out of the rotation by hand, and lets it return.
// Asks the running server through the operator socket: its log has who did it and why.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { userName } from '../config/load.ts'
import type { DrainAnswer } from '../topology/drained-nodes.ts'
import { askServer, noServer } from './ask-server.ts'
import { type Call, flagOf, misuse, type PositionalSpec, type Report, type Verb } from './verb.ts'

const positionals: readonly PositionalSpec[] = [
  { name: 'set', doc: 'Its set, such as default.' },
  { name: 'node', doc: 'Its number, as in `sluice status`.' },
]
const flags = [
  { name: 'reason', value: 'text', doc: 'Why; shown in status and kept in the log.' },
] as const

export const nodeVerbs: readonly Verb[] = [
  {
    words: ['node', 'drain'],
    api: 'change',
    summary: 'Take a node out of the rotation; calls in flight end there. Survives a restart.',
    examples: ['node drain default 2 --reason "upgrade to 4.3"'],
    positionals,
    flags,
    run: (call) => change(call, true),
  },
  {
    words: ['node', 'resume'],
    api: 'change',
    summary: 'Let a drained node return to the rotation.',
    examples: ['node resume default 2'],
    positionals,
    flags,
    run: (call) => change(call, false),
  },
]

async function change(call: Call, isDrained: boolean): Promise<Outcome<Report>> {
  const [set = '', number = ''] = call.positionals
  if (!/^[1-9]\d{0,5}$/.test(number)) return misuse('<node> must be the number of a node, from 1')
  const { data } = call.loaded.config
  const request = {
    node: `${set}/${number}`,
    isDrained,
    who: call.who ?? userName(),
    reason: flagOf(call, 'reason') ?? '',
  }
  const answer = await askServer(data, 'drain', request)
  if (!answer.ok) return noServer(data, answer)
  // Reason for the cast: the server is of the same build.
  const done = answer.value as DrainAnswer
  if ('problem' in done) return refuse('rejected', 'not-drained', done.problem)
  const { node, state, waiting } = done
  const text = isDrained
    ? `${node} is drained: it gets no new calls. Calls in flight: ${waiting}.`
    : `${node} is ${state}: it is in the rotation again once it is up.`
  return accept({ json: done, text })
}
