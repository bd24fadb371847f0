import { expect, test } from 'vitest'
import { newEvent, openInbox } from '../fixtures/inbox.ts'
import type { InboxSession, Release } from '../model/inbox.ts'
import { createLateReleases } from './release-later.ts'

/** A session whose store can be down. */
async function flaky(): Promise<{
  readonly session: InboxSession<undefined>
  readonly release: InboxSession<undefined>['release']
  readonly store: { isAway: boolean }
  readonly releaseOne: () => Promise<Release>
}> {
  const { session } = await openInbox()
  const store = { isAway: false }
  const releaseOne = async (): Promise<Release> => {
    const event = newEvent()
    const answer = await session.suspect([event], 0)
    const counted = answer.kind === 'answered' ? answer.counted[0] : undefined
    if (counted === undefined) throw new Error('not counted')
    return { event, token: counted.token, as: 'no-verdict' }
  }
  const release: InboxSession<undefined>['release'] = (releases) =>
    store.isAway ? Promise.reject(new Error('away')) : session.release(releases)
  return { session, release, store, releaseOne }
}

test('a run without a verdict is released once the store is back', async () => {
  const { session, release, store, releaseOne } = await flaky()
  const late: number[] = []
  const unreleased = createLateReleases({ release }, (_error, runs) => late.push(runs))
  const [first, second] = [await releaseOne(), await releaseOne()]
  store.isAway = true
  await unreleased.release([first])
  await unreleased.release([second])
  await unreleased.flush()
  expect(late).toEqual([1, 2])
  expect(await session.classify([first.event])).toMatchObject([{ kind: 'running', attempt: 1 }])

  store.isAway = false
  await unreleased.flush()

  expect(await session.classify([first.event, second.event])).toMatchObject([
    { kind: 'waiting', attempt: 0, alone: true },
    { kind: 'waiting', attempt: 0, alone: true },
  ])
})

test('without late releases the store is not called', async () => {
  const asked: (readonly Release[])[] = []
  const release: InboxSession<undefined>['release'] = async (releases) => {
    asked.push(releases)
    return []
  }
  const unreleased = createLateReleases({ release }, () => undefined)
  await unreleased.flush()
  await unreleased.release([])
  expect(asked).toEqual([])
})

test('the oldest late releases are dropped during a long outage', async () => {
  const asked: (readonly Release[])[] = []
  const late: number[] = []
  const event = newEvent()
  const releases = Array.from({ length: 10_001 }, (_, n): Release => {
    return { event, token: `${n}` as Release['token'], as: 'given-back' }
  })
  const release: InboxSession<undefined>['release'] = (all) => {
    asked.push(all)
    return Promise.reject(new Error('away'))
  }
  const unreleased = createLateReleases({ release }, (_error, runs) => late.push(runs))
  await unreleased.release(releases)
  await unreleased.flush()
  expect(late).toEqual([10_000])
  expect(asked[1]).toEqual(releases.slice(1))
})

test('a release is kept if the store fails for other releases', async () => {
  const { session, release, store, releaseOne } = await flaky()
  const gate = Promise.withResolvers<never>()
  let calls = 0
  const unreleased = createLateReleases(
    {
      release: (releases) => {
        calls += 1
        return calls === 1 ? gate.promise : release(releases)
      },
    },
    () => undefined,
  )
  const [first, second] = [await releaseOne(), await releaseOne()]
  store.isAway = true
  const releasing = unreleased.release([first])
  await unreleased.release([second])
  gate.reject(new Error('away'))
  await releasing
  store.isAway = false
  await unreleased.flush()
  expect(await session.classify([first.event, second.event])).toMatchObject([
    { kind: 'waiting' },
    { kind: 'waiting' },
  ])
})
