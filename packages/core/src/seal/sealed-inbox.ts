import type { EventId } from '../model/brands.ts'
import { ConfigurationError } from '../model/errors.ts'
import type {
  Begun,
  Commit,
  CommitAnswer,
  Failure,
  IdentifiedEvent,
  InboxSession,
  InboxTransaction,
  NextBegin,
} from '../model/inbox.ts'
import { type Sealer, sealDelivery, sealMessage, sealResult } from './sealer.ts'

/** Every part of a session: what is not sealed passes through. */
const PARTS: Readonly<Record<keyof InboxSession<unknown>, true>> = {
  ...{ concurrency: true, sendsMessages: true, keepsSealed: true, offsets: true, pauses: true },
  ...{ secret: true, identity: true, begin: true, classify: true, suspect: true, count: true },
  ...{ park: true, fail: true, bury: true, release: true, noteLate: true, refuse: true },
  ...{ isWhole: true, takePublishing: true, endPublishing: true, due: true, messageCounts: true },
  ...{ resolveRefused: true, sweep: true, diagnose: true, isProven: true, poolUse: true },
  ...{ heartbeat: true, figures: true, close: true },
}

/**
 * An inbox that stores nothing of a message in plain: deliveries, results and messages of the outbox are sealed on their way
 * in. Fingerprints, event ids and hashes of messages are taken before. What comes out is opened where it is used: deliveries
 * by `openedDue`, results by the end of the event.
 *
 * @throws {@link ConfigurationError} if the inbox does not keep that a delivery is sealed.
 */
export function sealedInbox<Tx>(session: InboxSession<Tx>, sealer: Sealer): InboxSession<Tx> {
  if (session.keepsSealed === undefined) {
    throw new ConfigurationError(
      'Expected no `seal` beside this `inbox`: it does not keep whether a stored message is sealed. Use an inbox of PostgreSQL or Redis, or leave `seal` out.',
    )
  }
  const own = (event: IdentifiedEvent): Promise<IdentifiedEvent> => sealEvent(sealer, event)
  /** Of verbs with which this session stores deliveries only if it stores them from the first failure on. */
  const early =
    session.keepsSealed === 'troubled' ? own : (event: IdentifiedEvent) => Promise.resolve(event)
  const failures = <Given extends { readonly event: IdentifiedEvent }>(
    all: readonly Given[],
    seal: typeof own,
  ): Promise<readonly Given[]> =>
    Promise.all(all.map(async (each) => ({ ...each, event: await seal(each.event) })))
  const { isWhole, noteLate } = session
  return {
    ...boundParts(session),
    begin: async (request) =>
      sealBegun(await session.begin(request), sealer, (all) => failures(all, early)),
    suspect: async (events, waitMs) => {
      const answer = await session.suspect(await Promise.all(events.map(early)), waitMs)
      if (answer.kind === 'held') return answer
      const counted = answer.counted.map(
        (each, index) => each && { ...each, event: events[index] as IdentifiedEvent },
      )
      return { kind: 'answered', counted }
    },
    count: async (events, run) => session.count(await Promise.all(events.map(own)), run),
    park: async (events, waitMs) => session.park(await Promise.all(events.map(own)), waitMs),
    fail: async (all) => session.fail(await failures(all, early)),
    bury: async (all) => session.bury(await failures(all, own)),
    refuse: async (all) =>
      session.refuse(
        await Promise.all(
          all.map(async (each) => ({
            ...each,
            delivery: await sealDelivery(sealer, each.delivery),
            original: each.delivery,
          })),
        ),
      ),
    ...(noteLate && {
      noteLate: async (all) => noteLate.call(session, await failures(all, own)),
    }),
    ...(isWhole && {
      isWhole: async (ref, delivery) =>
        isWhole.call(session, ref, await sealDelivery(sealer, delivery)),
    }),
  }
}

/** A session is an instance of a class with private fields, so its methods need their own `this`. */
function boundParts<Tx>(session: InboxSession<Tx>): InboxSession<Tx> {
  const names = Object.keys(PARTS) as (keyof InboxSession<Tx>)[]
  const parts = names.flatMap((name) => {
    const part: unknown = session[name]
    if (part === undefined) return []
    return [[name, typeof part === 'function' ? part.bind(session) : part]] as const
  })
  return Object.fromEntries(parts) as unknown as InboxSession<Tx>
}

async function sealEvent(sealer: Sealer, event: IdentifiedEvent): Promise<IdentifiedEvent> {
  return { ...event, delivery: await sealDelivery(sealer, event.delivery) }
}

type SealFailures = (failures: readonly Failure[]) => Promise<readonly Failure[]>

/** The transaction itself is kept: others know it, and the next one may begin with its COMMIT. */
function sealBegun<Tx>(begun: Begun<Tx>, sealer: Sealer, sealFailures: SealFailures): Begun<Tx> {
  if (begun.kind !== 'open') return begun
  const { transaction } = begun
  const commit = transaction.commit.bind(transaction)
  const rollbackAndFail = transaction.rollbackAndFail.bind(transaction)
  const own: Pick<InboxTransaction<Tx>, 'commit' | 'rollbackAndFail'> = {
    commit: (given, next) => {
      const nextBegin = next && sealNext(next, sealer, sealFailures)
      const { results, sends = [] } = given
      if (results.size === 0 && sends.length === 0) return commit(given, nextBegin)
      return sealCommit(sealer, given).then(
        (sealed) => commit(sealed, nextBegin),
        async (error: unknown): Promise<CommitAnswer> => {
          await transaction.rollback()
          return { kind: 'rolled-back', error }
        },
      )
    },
    rollbackAndFail: async (failures) => {
      const sealed = await sealFailures(failures).catch(async (error: unknown) => {
        await transaction.rollback()
        throw error
      })
      return rollbackAndFail(sealed)
    },
  }
  Object.assign(transaction, own)
  return begun
}

const sealNext = <Tx>(
  next: NextBegin<Tx>,
  sealer: Sealer,
  sealFailures: SealFailures,
): NextBegin<Tx> => ({
  take: () => next.take(),
  begun: (begun) => next.begun(begun?.then((one) => sealBegun(one, sealer, sealFailures))),
})

async function sealCommit(sealer: Sealer, commit: Commit): Promise<Commit> {
  const { results, sends } = commit
  const sealing = [...results].map(
    async ([id, text]): Promise<readonly [EventId, string]> => [id, await sealResult(sealer, text)],
  )
  const [sealed, messages] = await Promise.all([
    Promise.all(sealing),
    sends && Promise.all(sends.map((message) => sealMessage(sealer, message))),
  ])
  return { ...commit, results: new Map(sealed), sends: messages }
}
