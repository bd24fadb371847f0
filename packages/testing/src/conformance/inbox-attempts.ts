import { describe, expect, it } from 'vitest'
import {
  counted,
  fresh,
  MAX_ATTEMPTS,
  NOT_YOUNG_MS,
  newEvent,
  type Open,
} from './inbox-under-test.ts'

/** Attempts that are written before the run. */
export function attemptTests<Tx>(open: Open<Tx>): void {
  describe('a suspect', () => {
    it('gets attempt 1 before its run, and only once', async () => {
      await using opened = await open()
      const { steps } = opened
      const [one, two] = [newEvent(), newEvent()]
      const first = await steps.suspect(one)
      expect(first.attempt).toBe(1)
      const answer = await steps.session.suspect([one, two], 100)
      expect(answer).toMatchObject({ kind: 'answered', counted: [undefined, { attempt: 1 }] })
      expect(await steps.known(one)).toMatchObject({ kind: 'running', attempt: 1 })
    })

    // Found by comparing random statements: an insert waits for a row that changes, and not for one that is only locked.
    it('is answered at once while a claim holds its row and does not change it', async () => {
      await using opened = await open()
      const { steps } = opened
      const [mine, waiting] = [await steps.suspect(newEvent()), await steps.suspect(newEvent())]
      const failure = { ...waiting, error: new Error('declined'), delayMs: 0 }
      expect(await steps.session.fail([failure])).toEqual(['recorded'])
      const transaction = await steps.begin(counted(mine, waiting))
      const answer = await steps.session.suspect([waiting.event], 100)
      expect(answer).toEqual({ kind: 'answered', counted: [undefined] })
      await transaction.rollback()
    })

    // Red when the attempt is written in the business transaction: it rolls back, and poison runs again and again.
    it('trap T13: an attempt counter survives the rollback', async () => {
      await using opened = await open()
      const { steps } = opened
      const first = await steps.suspect(newEvent())
      await (await steps.begin(counted(first))).rollback()
      expect(await steps.known(first.event)).toMatchObject({ kind: 'running', attempt: 1 })
      const second = await steps.countAlone(first.event)
      await (await steps.begin(counted(second))).rollback()
      expect(await steps.known(first.event)).toMatchObject({ kind: 'running', attempt: 2 })
    })
  })

  describe('a count', () => {
    it('does not touch an event that was counted less than five seconds ago', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { event } = await steps.suspect(newEvent())
      await subject.pass(2_000)
      expect(await steps.session.count([event], 'alone')).toEqual([{ kind: 'held' }])
      await subject.pass(NOT_YOUNG_MS)
      expect(await steps.session.count([event], 'alone')).toMatchObject([
        { kind: 'counted', attempt: 2 },
      ])
    })

    it('takes an event without a verdict only if it runs alone', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { event } = await steps.suspect(newEvent())
      await subject.pass(NOT_YOUNG_MS)
      expect(await steps.session.count([event], 'together')).toEqual([{ kind: 'changed' }])
    })

    it('takes a waiting event once it is due', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { event, token, attempt } = await steps.suspect(newEvent())
      await steps.session.fail([{ event, token, attempt, error: 'busy', delayMs: 60_000 }])
      expect(await steps.session.count([event], 'together')).toEqual([{ kind: 'changed' }])
      await subject.pass(60_001)
      expect(await steps.known(event)).toMatchObject({ kind: 'waiting', remainingMs: 0 })
      // Only its broker delivers it.
      expect(await steps.session.due(10)).toEqual([])
      expect(await steps.session.count([event], 'together')).toMatchObject([
        { kind: 'counted', attempt: 2 },
      ])
    })

    it('answers each event of a batch by its own state', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { event: old } = await steps.suspect(newEvent())
      await subject.pass(NOT_YOUNG_MS)
      const [absent, done, young] = [newEvent(), newEvent(), newEvent()]
      await steps.commit(fresh(done))
      await steps.suspect(young)
      const answers = await steps.session.count([absent, done, young, old], 'alone')
      expect(answers.map(({ kind }) => kind)).toEqual(['changed', 'changed', 'held', 'counted'])
    })

    it('answers held while a transaction locks the row, and later counts the event once', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const first = await steps.suspect(newEvent())
      await subject.pass(NOT_YOUNG_MS)
      const transaction = await steps.begin(counted(first))
      expect(await steps.session.count([first.event], 'alone')).toEqual([{ kind: 'held' }])
      await transaction.rollback()
      const answers = await Promise.all(
        [1, 2, 3, 4].map(() => steps.session.count([first.event], 'alone')),
      )
      const kinds = answers.flat().map(({ kind }) => kind)
      expect(kinds.filter((kind) => kind === 'counted')).toHaveLength(1)
      expect(kinds.filter((kind) => kind === 'held')).toHaveLength(3)
      expect(await steps.known(first.event)).toMatchObject({ kind: 'running', attempt: 2 })
    })

    it('buries an event whose attempts are spent, and does not publish it', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { event } = await steps.suspect(newEvent())
      for (let attempt = 2; attempt <= MAX_ATTEMPTS; attempt += 1) await steps.countAlone(event)
      await subject.pass(NOT_YOUNG_MS)
      const spent = { reason: 'attempts-spent', attempt: MAX_ATTEMPTS }
      expect(await steps.session.count([event], 'alone')).toEqual([{ kind: 'buried', ...spent }])
      expect(await steps.known(event)).toMatchObject({ kind: 'dead', published: false, ...spent })
      const letter = await steps.published({ kind: 'event', id: event.id })
      expect(letter).toMatchObject({ reason: 'attempts-spent', attempts: MAX_ATTEMPTS })
      expect(letter?.delivery.body).toEqual(event.delivery.body)
    })

    it('counts the attempts of an event that has a maximum of its own by that', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const [few, many] = [await steps.suspect(newEvent()), await steps.suspect(newEvent())]
      for (let attempt = 2; attempt <= MAX_ATTEMPTS; attempt += 1)
        await steps.countAlone(many.event)
      await subject.pass(NOT_YOUNG_MS)
      const events = [
        { ...few.event, maxAttempts: 1 },
        { ...many.event, maxAttempts: MAX_ATTEMPTS + 1 },
      ]
      expect(await steps.session.count(events, 'alone')).toMatchObject([
        { kind: 'buried', reason: 'attempts-spent', attempt: 1 },
        { kind: 'counted', attempt: MAX_ATTEMPTS + 1 },
      ])
    })

    it('buries an event after three times the maximum of attempts without a verdict', async () => {
      await using opened = await open()
      const { steps, subject } = opened
      const { event, token } = await steps.suspect(newEvent())
      let last = token
      for (let run = 1; run < 3 * MAX_ATTEMPTS; run += 1) {
        const as = 'no-verdict'
        expect(await steps.session.release([{ event, token: last, as }])).toEqual(['recorded'])
        expect(await steps.known(event)).toMatchObject({ kind: 'waiting', attempt: 0 })
        last = (await steps.countAlone(event)).token
      }
      await steps.session.release([{ event, token: last, as: 'no-verdict' }])
      await subject.pass(NOT_YOUNG_MS)
      expect(await steps.session.count([event], 'alone')).toMatchObject([
        { kind: 'buried', reason: 'no-verdict' },
      ])
      await subject.replay({ kind: 'event', id: event.id })
      expect(await steps.countAlone(event)).toMatchObject({ attempt: 1 })
    })
  })
}
