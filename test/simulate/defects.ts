// Defects that the simulation finds: each takes what prevents it out of a compiled module.
// A defect is put into the modules of one process only (`--defect`), as they are loaded.
import type { Defect } from './defect.ts'
import { streamsDefects } from './streams-defects.ts'

export const defects: readonly Defect[] = [
  {
    name: 'half-a-slot',
    what: 'a gateway that begins in the middle of a slot says that it has it: the rest is skipped',
    world: 'streams',
    seeds: 200,
    fails: /lacks \d+|came too early|are lost/,
    cuts: [
      {
        file: 'streams/hub/hub',
        text: 'Math.max(this.#first.slot, this.firstContent)',
        put: 'this.#first.slot',
      },
    ],
  },
  {
    name: 'confirmed-in-part',
    what: 'a slot is confirmed without the transactions that its nodes send after they confirmed it',
    world: 'chain',
    seeds: 40,
    fails: /grpc at confirmed/,
    cuts: [
      {
        file: 'streams/flows/confirmations',
        text: 'isOther || this.#hasWholeBlocks',
        put: 'isOther',
      },
    ],
  },
  {
    name: 'confirmed-mixture',
    what: 'a block is confirmed with late transactions of the bank that its slot had before',
    world: 'chain',
    from: 100,
    seeds: 20,
    fails: /grpc at confirmed/,
    cuts: [
      {
        file: 'streams/flows/confirmations',
        text: 'return this.#streams.isBusyWith(tracked, provisional)',
        put: 'return false',
      },
    ],
  },
  {
    name: 'uncounted-restatement',
    what: 'what was restated with a retraction is published once more where another stream sends it',
    world: 'chain',
    from: 590,
    seeds: 10,
    fails: /grpc with retractions/,
    cuts: [
      {
        file: 'streams/flows/tracked-slot',
        text: 'this.names &&= new ItemNames();',
        put: 'items = [];',
      },
    ],
  },
  {
    name: 'sent-before-start',
    what: 'cursors of a gateway that has just started name slots as not sent that were before',
    world: 'streams',
    seeds: 420,
    fails: /came again/,
    cuts: [
      {
        file: 'streams/pubsub/engine',
        text: 'this.#cursors.startLive((commitment) => hub.newestAt(commitment), hub.firstContent);',
        put: 'this.#cursors.startLive(() => -1, 0);',
      },
    ],
  },
  {
    name: 'early-consumer',
    what: 'a consumer that comes before the first update of a gateway is told that it is too late',
    world: 'streams',
    seeds: 30,
    fails: /is kept from \d+, and was said not to be/,
    cuts: [
      {
        file: 'streams/geyser/subscriber',
        text: 'newestSlot === null || at.floor > newestSlot + aheadSlotsMax',
        put: 'at.floor > (newestSlot ?? 0) + aheadSlotsMax',
      },
      {
        file: 'streams/geyser/subscriber',
        text: 'newestSlot === null ? null : oldestSlot',
        put: 'oldestSlot',
      },
    ],
  },
  {
    name: 'adopted-early',
    what: 'a gateway that has not reached a cursor sends what comes before it once more',
    world: 'streams',
    seeds: 30,
    fails: /came again/,
    cuts: [
      { file: 'streams/pubsub/cursor-feeds', text: '|| !replay.#hasPassedCursor(params)', put: '' },
    ],
  },
  {
    name: 'forgotten-part',
    what: 'a consumer gets the items once more that it has of a slot that it has in part',
    world: 'streams',
    seeds: 30,
    fails: /came again|came \d+ times/,
    cuts: [
      { file: 'streams/geyser/position', text: 'if (this.#names.size === 0)', put: 'if (true)' },
    ],
  },
  {
    name: 'late-commit',
    what: 'a commit that was given up takes effect after the next one: its consumer goes back',
    world: 'streams',
    seeds: 100,
    fails: /came again|came \d+ times|came after that/,
    cuts: [{ file: 'customers/subscriptions/consumers', text: '++this.#batch', put: '0' }],
  },
  {
    name: 'slot-begun-by-two',
    what: 'of two nodes without a replay the second one makes half of a slot look whole',
    world: 'streams',
    seeds: 20,
    fails: /came too early|came again|lacks|are lost/,
    cuts: [
      {
        file: 'streams/flows/open-streams',
        text: 'isAfterFirst || (first === undefined && tracked.hasPublished)',
        put: 'tracked.firstConnection !== open.connection',
      },
    ],
  },
  {
    name: 'lost-fork-again',
    what: 'a node that is cut brings back a fork that has lost, as another node had it',
    world: 'streams',
    seeds: 10,
    from: 530,
    fails: /came again|of no chain/,
    cuts: [
      {
        file: 'streams/flows/slot-tracker',
        text: 'isSettled || tracked.slot < this.#newestFinalized',
        put: 'isSettled',
      },
      { file: 'streams/flows/slot-tracker', text: '&& !view.hasLeft', put: '' },
    ],
  },
  {
    name: 'kept-void-bank',
    what: 'a consumer keeps what it has of a void bank that only the gateway before had',
    world: 'streams',
    seeds: 15,
    from: 550,
    fails: /came again/,
    cuts: [
      { file: 'streams/geyser/position', text: 'own?.isReplacedBy(update)', put: 'own === null' },
      { file: 'streams/geyser/position', text: "isOther ? 'conflict' : ", put: '' },
    ],
  },
  {
    name: 'taken-back-elsewhere',
    what: 'what a gateway takes back before it has the block of a consumer is sent once more',
    world: 'streams',
    seeds: 60,
    fails: /came again|came \d+ times|came after that/,
    cuts: [{ file: 'streams/geyser/position', text: 'isBefore || isStated', put: 'false' }],
  },
  {
    name: 'lagging-gateway',
    what: 'a client with a cursor of a gateway that is further begins anew',
    world: 'resume',
    seeds: 20,
    fails: /a client began anew, and nothing was lost/,
    cuts: [
      {
        file: 'products/metrics/session',
        text: '!log.mayReach(cursor, connect.run)',
        put: 'log !== null',
      },
    ],
  },
  {
    name: 'repeated-events',
    what: 'a gateway that takes over appends what the log has once more',
    world: 'resume',
    seeds: 60,
    fails: /has block \d+ once more/,
    cuts: [
      {
        file: 'streams/log/shared-events',
        text: '&& !isOld && !this.isInLog(frame)',
        put: '&& !isOld',
      },
    ],
  },
  {
    name: 'late-deadline',
    what: 'a lease ends later here than at the server: two gateways send to a destination',
    world: 'destinations',
    seeds: 60,
    fails: /send to d\d at/,
    cuts: [
      {
        file: 'customers/cluster/postgres/tables',
        text: '({ name, term, untilMs }))',
        put: '({ name, term, untilMs: this.#clock.monotonicMs() + ttlMs }))',
      },
    ],
  },
  {
    name: 'unexchanged-refill',
    what: 'a share that is not exchanged any more refills what the ledger grants to others',
    world: 'budgets',
    seeds: 520,
    fails: /were admitted of/,
    cuts: [
      {
        file: 'customers/cluster/shares',
        text: 'nowMs - this.#usedMs >= refillMs)',
        put: 'nowMs < 0)',
      },
    ],
  },
  {
    name: 'silent-set-up',
    what: 'a connection that goes silent while it is set up is waited for without a bound',
    world: 'registry',
    seeds: 50,
    fails: /is not up after \d+ ms without a fault/,
    cuts: [
      {
        file: 'customers/cluster/postgres/client',
        text: 'not be the one in use yet.\n            session.destroy();',
        put: '',
      },
    ],
  },
  {
    name: 'shown-by-restart',
    what: 'a change that a restarted primary shows and its standby lacks is acknowledged',
    world: 'registry',
    from: 905,
    seeds: 10,
    fails: /was accepted, and is lost|was refused as not changed, and is stored/,
    cuts: [
      {
        file: 'customers/cluster/postgres/registry',
        text: "await queries.query('UPDATE head SET seq = seq');",
        put: '',
      },
    ],
  },
  {
    name: 'commit-in-doubt',
    what: 'a change whose commit waits for a standby is reported as not made',
    world: 'registry',
    seeds: 100,
    fails: /was refused as not changed, and is stored/,
    cuts: [
      {
        file: 'customers/cluster/postgres/registry',
        text: 'await lockedHead(queries);\n                const found',
        put: 'const found',
      },
    ],
  },
  {
    name: 'ended-spare',
    what: 'a session that ended before it replaces a silent one is used for ever',
    world: 'registry',
    seeds: 150,
    fails: /does not follow|is not up/,
    cuts: [{ file: 'customers/cluster/postgres/client', text: 'session.isEnded = true;', put: '' }],
  },
  {
    name: 'torn-end',
    what: 'what a killed process left unfinished stays in its file, and costs what is before it',
    world: 'segments',
    seeds: 60,
    fails: /was written and is gone/,
    cuts: [
      {
        file: 'streams/segments/segment-writer',
        text: 'if (end < size)\n            ftruncateSync(file, end);',
        put: '',
      },
    ],
  },
  {
    name: 'hole-in-log',
    what: 'files before a damaged one are kept: a replay steps over what is missing',
    world: 'segments',
    seeds: 60,
    fails: /updates of slot \d+ are missing/,
    cuts: [
      {
        file: 'streams/segments/segment-writer',
        text: '!isWhole || before !== number - 1',
        put: 'isWhole && !isWhole',
      },
    ],
  },
  {
    name: 'evicted-eras',
    what: 'a replay of evicted slots that nobody reads keeps all later updates in memory',
    world: 'chain',
    seeds: 10,
    fails: /stalled readers keep \d+ updates of evicted slots in memory/,
    cuts: [
      { file: 'streams/hub/hub', text: 'first.next = null;\n            for', put: 'for' },
      { file: 'streams/hub/hub', text: 'updates.clear();', put: 'void updates;' },
    ],
  },
  {
    name: 'stalled-replay',
    what: 'a reader that stopped in a replay is never ended, although its slots were evicted',
    world: 'chain',
    seeds: 10,
    fails: /a stalled reader of evicted slots is not ended/,
    cuts: [
      { file: 'streams/geyser/replayer', text: 'pause(ms = lostCheckMs)', put: 'pause(ms = 1e9)' },
    ],
  },
  {
    name: 'replay-refused',
    what: 'a node that evicts the slot asked for counts as one without replay: its slots are lost',
    world: 'chain',
    seeds: 30,
    fails: /grpc at confirmed/,
    cuts: [
      {
        file: 'upstream/geyser/geyser-feed',
        text: 'end.code === unimplemented || tries === replayTriesMax',
        put: 'tries > 0',
      },
    ],
  },
  {
    name: 'landed-at-processed',
    what: 'a transaction in a block that is only processed counts as landed and is not resent',
    world: 'transactions',
    seeds: 10,
    fails: /the confirmed slot of a landed one/,
    cuts: [
      {
        file: 'products/tpu/forward',
        text: 'commitment !== Commitment.confirmed ||',
        put: 'commitment !== Commitment.processed ||',
      },
      {
        file: 'products/tpu/forward',
        text: 'commitment === Commitment.confirmed &&',
        put: 'commitment === Commitment.processed &&',
      },
    ],
  },
  {
    name: 'processed-status',
    what: 'a node that has a transaction at processed ends it as landed',
    world: 'transactions',
    seeds: 20,
    fails: /the confirmed slot of a landed one/,
    cuts: [
      {
        file: 'upstream/transaction-senders',
        text: "confirmationStatus !== 'confirmed' && confirmationStatus !== 'finalized'",
        put: "confirmationStatus === 'unknown'",
      },
    ],
  },
  {
    name: 'not-resent',
    what: 'a submission that was lost on its way to a block is not resent',
    world: 'transactions',
    seeds: 20,
    fails: /is not resent/,
    cuts: [
      {
        file: 'products/tpu/forward',
        text: 'else if (submission.tries < submission.triesMax)',
        put: 'else if (submission.tries < 1)',
      },
    ],
  },
  {
    name: 'digest-of-all',
    what: 'submissions of two callers count as one: the second gets the answer to the first',
    world: 'transactions',
    seeds: 20,
    fails: /the answer to a submission|a forged copy/,
    cuts: [{ file: 'products/tpu/handle', text: "hash('sha256', bytes, 'binary')", put: "''" }],
  },
  {
    name: 'refused-connection',
    what: 'a connection attempt that fails opens the breaker of a node that answers on others',
    world: 'reads',
    seeds: 20,
    fails: /a set whose only node answers is down/,
    cuts: [
      {
        file: 'upstream/node-pool/upstream-node',
        text: "fault !== 'unreached' || !this.#isConnected()",
        put: 'true',
      },
    ],
  },
  {
    name: 'given-up-reads',
    what: 'a connection attempt that fails ends the reads in flight at the only node',
    world: 'reads',
    seeds: 60,
    fails: /a read that its only node answers was given up/,
    cuts: [
      {
        file: 'upstream/node-pool/upstream-node',
        text: "fault !== 'unreached' || !this.#isConnected()",
        put: 'true',
      },
      {
        file: 'upstream/node-pool/upstream-set',
        text: 'if (this.hasOther(node))',
        put: 'if (true)',
      },
    ],
  },
  {
    name: 'forged-slot',
    what: 'a slot that the sender of a transaction wrote counts as one that a customer has seen',
    world: 'reads',
    seeds: 20,
    fails: /shows slot \d+ after \d+/,
    cuts: [
      {
        file: 'upstream/proxy/shown-slots',
        text: 'ownSlot(textOf(answer))',
        put: 'Math.max(...[...textOf(answer).matchAll(SLOT)].map(([, one]) => Number(one)))',
      },
    ],
  },
  {
    name: 'refused-and-charged',
    what: 'a call that is refused because others are in flight is charged',
    world: 'reads',
    seeds: 20,
    fails: /credits charged/,
    cuts: [
      {
        file: 'base/jsonrpc/serve',
        text: 'allowance: budget.spend([]), refusal: tooManyInFlight',
        put: 'allowance: budget.spend(items.map(costOf)), refusal: tooManyInFlight',
      },
    ],
  },
  {
    name: 'older-stream',
    what: 'the stream of a set answers although the customer was shown a later slot by a node',
    world: 'reads',
    seeds: 20,
    fails: /shows slot \d+ after \d+/,
    cuts: [{ file: 'upstream/proxy/rpc-proxy', text: 'slot < seen', put: 'slot < 0' }],
  },
  {
    name: 'wrong-flight',
    what: 'a read shares the answer of another one: it is given to the wrong caller',
    world: 'reads',
    seeds: 20,
    fails: /the (account|transaction) of an answer/,
    cuts: [
      {
        file: 'upstream/proxy/rpc-proxy',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: it is text of a module
        text: ' ${call.paramsText}`',
        put: '`',
      },
    ],
  },
  {
    name: 'unseen-signature',
    what: 'a node that lags the stream makes a notification be lost, although the stream has it',
    world: 'signatures',
    seeds: 20,
    fails: /notifications at \w+ of a signature: 0 instead of 1/,
    cuts: [
      {
        file: 'streams/pubsub/signature-notifications',
        text: 'const seen = this.#seenStatus(key)',
        put: 'const seen = null',
      },
    ],
  },
  {
    name: 'unavailable-lookup',
    what: 'a look-up that no node answers ends the subscription without a notification',
    world: 'signatures',
    seeds: 20,
    fails: /notifications at \w+ of a signature: 0 instead of 1/,
    cuts: [
      {
        file: 'streams/pubsub/signature-notifications',
        text: 'if (status === null)',
        put: "if (status === null || status === 'unavailable')",
      },
    ],
  },
  {
    name: 'unfinished-signature',
    what: 'a signature that was notified is notified once more',
    world: 'signatures',
    seeds: 20,
    fails: /a signature was notified twice/,
    cuts: [
      {
        file: 'streams/pubsub/signature-notifications',
        text: 'if (isFinal)',
        put: 'if (!isFinal)',
      },
    ],
  },
  {
    name: 'swallowed-fork',
    what: 'what a consumer has of a fork stays with it where the next gateway never had the fork',
    world: 'streams',
    from: 60,
    seeds: 10,
    fails: /is of no chain, and was not taken back/,
    cuts: [
      {
        file: 'streams/geyser/replayer',
        text: 'of resumption.takenBack(update)',
        put: 'of []',
      },
    ],
  },
  {
    name: 'unnamed-bank',
    what: 'of two banks one is confirmed that the confirmed block after it does not name',
    world: 'streams',
    from: 100,
    seeds: 20,
    fails: /is not of the chain|is there 0 times/,
    cuts: [
      {
        file: 'streams/flows/confirmations',
        text: 'this.#hasParentNames && isOfOther',
        put: 'false',
      },
      {
        file: 'streams/flows/confirmations',
        text: 'this.#isLate(one) || !this.#isUndecided(one)',
        put: 'one',
      },
    ],
  },
  {
    name: 'silent-while-draining',
    what: 'a stream that is opened while its gateway stops gets nothing live, and commits all of it',
    world: 'streams',
    seeds: 60,
    fails: /consumer at \w+: \d+ of slot \d+ are lost/,
    cuts: [
      {
        file: 'streams/geyser/service',
        text: 'if (this.#stopped !== null)',
        put: 'if (false)',
      },
    ],
  },
  ...streamsDefects,
]
