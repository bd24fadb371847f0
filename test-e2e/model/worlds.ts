import { FIRST_WORLDS } from './attempts-first.ts'
import { TEXT_WORLDS } from './attempts-worlds.ts'
import { type EpochFaults, epochs, type Marking, type Removal } from './epoch.ts'
import type { Model } from './explore.ts'
import { explore } from './explore.ts'
import { fence } from './fence.ts'
import type { FenceFaults, FenceRules } from './fence-state.ts'
import { outbox } from './outbox.ts'
import type { OutboxFaults, OutboxRules } from './outbox-state.ts'
import { type PartsFaults, type PartsRules, parts } from './parts.ts'
import { publishing } from './publishing.ts'
import type { PublishingFaults, PublishingRules } from './publishing-state.ts'
import { type RequeueFaults, type RequeueRules, requeueing } from './requeue.ts'
import type { World } from './world.ts'

const RULES: PublishingRules = {
  ...{ isExclusive: true, expires: true, comparesToken: true, marksAfter: true },
  ...{
    replayWaits: true,
    redeliveryPublishes: true,
    publishedSettles: true,
    pollerPublishes: true,
  },
}
const NONE: PublishingFaults = {
  ...{ crash: 0, duplicate: 0, refuse: 0, hang: 0, slow: 0, replay: 0, discard: 0 },
}

const world = <State>(name: string, model: Model<State>, rest: Partial<World> = {}): World => ({
  ...{ name, explore: () => explore(model) },
  ...rest,
})

const letters = (
  name: string,
  faults: Partial<PublishingFaults>,
  rest: Partial<World> = {},
): World => world(`publishing: ${name}`, publishing(RULES, { ...NONE, ...faults }), rest)

const without = (
  rule: keyof PublishingRules,
  breaks: string,
  faults: Partial<PublishingFaults>,
): World => {
  const model = publishing({ ...RULES, [rule]: false }, { ...NONE, ...faults })
  return world(`publishing: without ${rule}`, model, { breaks })
}

const REQUEUE: RequeueRules = {
  ...{ freesFirst: true, keepsMessage: true, comparesToken: true, releaseKeeps: true },
}
const NO_FAULT: RequeueFaults = {
  ...{ requeue: 2, crash: 0, hang: 0, refuse: 0, slow: 0, die: 0, giveBack: 0, kill: 0 },
  ...{ late: 0, replay: 0 },
}

const requeues = (
  name: string,
  faults: Partial<RequeueFaults>,
  over: Partial<RequeueRules> = {},
  breaks?: string,
): World => {
  const model = requeueing({ ...REQUEUE, ...over }, { ...NO_FAULT, ...faults })
  return world(`requeue: ${name}`, model, { breaks })
}

const removal = (how: Removal, breaks?: string, over: Partial<EpochFaults> = {}): World => {
  const faults = { removals: 1, duplicates: 1, flushes: 1, ...over }
  return world(`history: ${how}`, epochs(how, faults), { breaks })
}

/** Redis is asked by need, and marks are written behind the commits. */
const behind = (marking: Marking, breaks?: string): World => {
  const model = epochs('stopped', { removals: 1, duplicates: 1, flushes: 1 }, marking)
  return world(`history: stopped, marks ${marking}`, model, { breaks })
}

const ALL_PARTS: PartsRules = {
  ...{ waitsForAll: true, recordsDead: true, callsBeforeAck: true },
  ...{ callsForDuplicates: true, defersFailedCalls: true, remembers: true },
}

/** A message of two events, and `afterCommit`. */
const splits = (
  name: string,
  over: Partial<PartsRules> = {},
  breaks?: string,
  faults: Partial<PartsFaults> = {},
): World => {
  const some = { crash: 2, duplicate: 1, fail: 2, fatal: 1, call: 2, ...faults }
  return world(`parts: ${name}`, parts({ ...ALL_PARTS, ...over }, some), { breaks })
}

const OUTBOX: OutboxRules = {
  ...{ locks: true, sortsLocks: true, drawsInside: true, readsUndeleted: true },
  ...{ deletesAfter: true, leases: true, expires: true, holdsKey: true, sharesKeys: true },
}

const outboxes = (
  name: string,
  faults: Partial<OutboxFaults>,
  over: Partial<OutboxRules> = {},
  rest: Partial<World> = {},
): World => {
  const none = { writer: 0, relay: 0, freeze: 0, refuse: 0, unconfirmed: 0 }
  return world(`outbox: ${name}`, outbox({ ...OUTBOX, ...over }, { ...none, ...faults }), rest)
}

const FENCE: FenceRules = {
  ...{ epoch: true, comparesOld: true, seeks: true, exceptionsInside: true },
  ...{ keepsWaiting: true, forgetsSettled: true, looksAtRows: true },
  ...{ closes: true, closesBelow: true },
}

const fences = (
  name: string,
  { marks, ...faults }: Partial<FenceFaults> & { readonly marks?: readonly number[] },
  over: Partial<FenceRules> = {},
  rest: Partial<World> = {},
): World => {
  const none = { die: 0, zombie: 0, fail: 0, unknown: 0, ahead: 0, reset: 0 }
  const rules = { ...FENCE, ...over }
  return world(`fence: ${name}`, fence(rules, { ...none, ...faults }, marks), rest)
}

const STUCK = 'nothing but a fault leads on to an end'
const SKIPPED = 'skipped'
const OVERTAKES = 'a message overtakes one of its key'
const FALSE_DONE = 'a false done: acked without an effect'

/** Small worlds of the protocol. Those that leave a rule out show what the rule is for. */
export const WORLDS: readonly World[] = [
  requeues('crashes', { crash: 2, kill: 1, late: 1 }),
  requeues('a broker that hangs and refuses', { hang: 2, refuse: 1, slow: 1, die: 1 }),
  requeues('runs that die, are killed and are given back', {
    ...{ crash: 1, slow: 1, die: 1, giveBack: 1, kill: 1, late: 1 },
  }),
  requeues('and a replay beside it', {
    crash: 1,
    hang: 1,
    slow: 1,
    replay: 1,
    giveBack: 1,
    late: 1,
  }),
  requeues('without freesFirst', {}, { freesFirst: false }, STUCK),
  requeues('without keepsMessage', { crash: 1 }, { keepsMessage: false }, STUCK),
  requeues('without comparesToken', { die: 1 }, { comparesToken: false }, STUCK),
  requeues(
    'without releaseKeeps',
    { crash: 1, giveBack: 1, late: 1 },
    { releaseKeeps: false },
    STUCK,
  ),
  letters('crashes', { crash: 2, duplicate: 2 }),
  letters('a place that refuses and hangs', { crash: 1, duplicate: 1, refuse: 1, hang: 1 }),
  letters('replay', { hang: 1, slow: 1, replay: 1 }),
  letters('discard', { crash: 1, hang: 1, slow: 1, duplicate: 1, discard: 1 }),
  letters('replay and crash', { crash: 1, hang: 1, slow: 1, replay: 1 }, { isLarge: true }),
  letters('two replays', { crash: 1, hang: 1, replay: 2 }, { isLarge: true }),
  without('isExclusive', 'published by two at the same time', { duplicate: 1 }),
  without('expires', STUCK, { crash: 1 }),
  without('comparesToken', 'marked as published without a letter', { hang: 1, replay: 1 }),
  without('marksAfter', 'marked as published without a letter', {}),
  without('replayWaits', 'published as dead while it is waiting', { replay: 1 }),
  without('redeliveryPublishes', 'acked while it is dead and not published', { crash: 1 }),
  without('publishedSettles', 'published again', { duplicate: 1 }),
  without('pollerPublishes', STUCK, { crash: 1, replay: 1 }),
  outboxes('writers and relays die', { writer: 1, relay: 1 }),
  outboxes('a frozen relay', { freeze: 1, refuse: 1 }),
  outboxes('a broker that refuses and does not confirm', { refuse: 2, unconfirmed: 1 }),
  outboxes(
    'every fault',
    { relay: 1, freeze: 1, refuse: 1, unconfirmed: 1 },
    {},
    { isLarge: true },
  ),
  outboxes('without locks', {}, { locks: false }, { breaks: OVERTAKES }),
  outboxes('without sortsLocks', {}, { sortsLocks: false }, { breaks: STUCK }),
  outboxes('without drawsInside', {}, { drawsInside: false }, { breaks: OVERTAKES }),
  outboxes(
    'without readsUndeleted',
    {},
    { readsUndeleted: false, sharesKeys: false },
    { breaks: STUCK },
  ),
  outboxes('keys of their own', { writer: 1, relay: 1, refuse: 1 }, { sharesKeys: false }),
  outboxes(
    'without deletesAfter',
    { relay: 1 },
    { deletesAfter: false },
    { breaks: 'a message is lost' },
  ),
  outboxes('without leases', {}, { leases: false }, { breaks: 'published twice without a fault' }),
  outboxes('without expires', { relay: 1 }, { expires: false }, { breaks: STUCK }),
  outboxes('without holdsKey', { refuse: 1 }, { holdsKey: false }, { breaks: OVERTAKES }),
  fences('workers die', { die: 2, fail: 2 }),
  fences('zombies', { zombie: 2, fail: 1 }),
  fences('an unknown COMMIT', { zombie: 1, unknown: 1 }),
  fences("a group's offset that was moved ahead", { die: 1, fail: 1, ahead: 3 }),
  fences('a reset', { fail: 1, reset: 1 }),
  fences('a mark at the end', { die: 1, zombie: 1, fail: 1, marks: [2] }),
  fences('a mark in the middle', { die: 1, fail: 1, unknown: 1, marks: [1] }),
  fences(
    'every fault',
    { die: 1, zombie: 1, fail: 1, unknown: 1, reset: 1 },
    {},
    { isLarge: true },
  ),
  fences('without epoch', { fail: 1, reset: 1 }, { epoch: false }, { breaks: SKIPPED }),
  fences('without comparesOld', { unknown: 1 }, { comparesOld: false }, { breaks: 'two effects' }),
  fences('without seeks', { ahead: 1 }, { seeks: false }, { breaks: STUCK }),
  fences(
    'without exceptionsInside',
    { die: 1, fail: 1 },
    { exceptionsInside: false },
    { breaks: SKIPPED },
  ),
  fences('without keepsWaiting', {}, { keepsWaiting: false }, { breaks: SKIPPED }),
  fences('without forgetsSettled', { fail: 1 }, { forgetsSettled: false }, { breaks: SKIPPED }),
  fences('without closes: a mark', { marks: [2] }, { closes: false }, { breaks: STUCK }),
  fences('without closes: exceptions', { fail: 1 }, { closes: false }, { breaks: STUCK }),
  fences('without closesBelow', { marks: [1] }, { closesBelow: false }, { breaks: SKIPPED }),
  fences('without looksAtRows', { zombie: 1 }, { looksAtRows: false }, { breaks: 'two effects' }),
  splits('every fault'),
  splits('without waitsForAll', { waitsForAll: false }, 'acked and lost'),
  splits('without recordsDead', { recordsDead: false }, 'acked and lost'),
  splits('without callsBeforeAck', { callsBeforeAck: false }, 'acked without its reply'),
  splits('without callsForDuplicates', { callsForDuplicates: false }, 'acked without its reply'),
  splits('without defersFailedCalls', { defersFailedCalls: false }, 'acked without its reply'),
  splits('without remembers', { remembers: false }, 'two effects'),
  removal('stopped', undefined, { removals: 2, duplicates: 2 }),
  behind('behind'),
  behind('behind-named-late', FALSE_DONE),
  behind('in-process'),
  behind('in-process-named-late', FALSE_DONE),
  removal('removal-only', FALSE_DONE),
  // Until the name is read again, for 5 s at most: so the documents ask to stop the consumers first.
  removal('then-bump', FALSE_DONE),
  removal('bump-then', FALSE_DONE),
  ...FIRST_WORLDS,
  ...TEXT_WORLDS,
]
