import { describe, expect, it } from 'vitest'
import { counted, fresh, newEvent, type Open, strangeToken } from './inbox-under-test.ts'

/** How an attempt ends: `fail`, `bury`, `release`, and the fence before them. */
export function verdictTests<Tx>(open: Open<Tx>): void {
  const failure = { attempt: 1, error: new Error('timeout'), delayMs: 30_000 }

  describe('a failure', () => {
    it('makes a counted event wait, with its attempt', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event, token } = await steps.suspect(newEvent())
      expect(await steps.session.fail([{ ...failure, event, token }])).toEqual(['recorded'])
      const known = await steps.known(event)
      expect(known).toMatchObject({ kind: 'waiting', attempt: 1, alone: false })
      if (known.kind === 'waiting') {
        expect(known.remainingMs).toBeGreaterThan(20_000)
        expect(known.remainingMs).toBeLessThanOrEqual(30_000)
      }
    })

    it('of a clean run creates the failure record of its event', async () => {
      await using opened = await open()
      const { steps } = opened
      const event = newEvent()
      await (await steps.begin(fresh(event))).rollback()
      expect(await steps.session.fail([{ ...failure, event }])).toEqual(['recorded'])
      expect(await steps.known(event)).toMatchObject({ kind: 'waiting', attempt: 1 })
    })

    it('of no events returns no answers, like every other verdict', async () => {
      await using opened = await open()
      const { session } = opened.steps
      expect(await session.fail([])).toEqual([])
      expect(await session.bury([])).toEqual([])
      expect(await session.release([])).toEqual([])
    })

    it('is recorded together with the rollback', async () => {
      await using opened = await open()
      const { steps } = opened
      const [event, second] = [newEvent(), await steps.suspect(newEvent())]
      const clean = await steps.begin(fresh(event))
      expect(await clean.rollbackAndFail([{ ...failure, event }])).toEqual(['recorded'])
      expect(await steps.known(event)).toMatchObject({ kind: 'waiting', attempt: 1 })
      const recovered = await steps.begin(counted(second))
      expect(await recovered.rollbackAndFail([{ ...failure, ...second }])).toEqual(['recorded'])
      expect(await steps.known(second.event)).toMatchObject({ kind: 'waiting', attempt: 1 })
    })
  })

  describe('the fence of the inbox', () => {
    it('answers lost to every verdict of a replaced owner', async () => {
      await using opened = await open()
      const { steps } = opened
      const old = await steps.suspect(newEvent())
      const successor = await steps.countAlone(old.event)
      const { event, token, attempt } = old
      const { session } = steps
      expect(await session.fail([{ ...failure, event, token, attempt }])).toEqual(['lost'])
      const burial = { event, token, attempt, error: 'x', reason: 'fatal' } as const
      expect(await session.bury([burial])).toEqual(['lost'])
      expect(await session.release([{ event, token, as: 'given-back' }])).toEqual(['lost'])
      expect(await session.release([{ event, token, as: 'no-verdict' }])).toEqual(['lost'])
      expect(await steps.known(event)).toMatchObject({ kind: 'running', attempt: 2 })
      await steps.commit(counted(successor))
    })

    it('answers lost to the verdict of a clean run if another run has left a state since', async () => {
      await using opened = await open()
      const { steps } = opened
      const [done, running, waiting] = [newEvent(), newEvent(), newEvent()]
      await steps.commit(fresh(done))
      await steps.suspect(running)
      const events = [done, running, waiting]
      const failures = events.map((event) => ({ ...failure, event }))
      expect(await steps.session.fail(failures)).toEqual(['lost', 'lost', 'recorded'])
      const burials = events.map((event) => ({ ...failure, event, reason: 'fatal' as const }))
      expect(await steps.session.bury(burials)).toEqual(['lost', 'lost', 'lost'])
      const kinds = (await steps.session.classify(events)).map(({ kind }) => kind)
      expect(kinds).toEqual(['done', 'running', 'waiting'])
    })

    it('answers lost to a second verdict', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event, token } = await steps.suspect(newEvent())
      const twice = { ...failure, event, token }
      expect(await steps.session.fail([twice])).toEqual(['recorded'])
      expect(await steps.session.fail([{ ...twice, delayMs: 0 }])).toEqual(['lost'])
      expect(await steps.session.bury([{ ...twice, reason: 'fatal' }])).toEqual(['lost'])
    })

    it('answers lost to a verdict whose event is done, and does not change the event', async () => {
      await using opened = await open()
      const { steps } = opened
      const mine = await steps.suspect(newEvent())
      await steps.commit(counted(mine))
      const { event, token } = mine
      expect(await steps.session.bury([{ ...failure, event, token, reason: 'fatal' }])).toEqual([
        'lost',
      ])
      expect(await steps.session.release([{ event, token, as: 'given-back' }])).toEqual(['lost'])
      expect(await steps.known(event)).toMatchObject({ kind: 'done' })
    })
  })

  describe('a deferral', () => {
    const deferral = { error: undefined, delayMs: 60_000, attempt: 1, deferral: { most: 2 } }

    it('gives the attempt back, waits, and is counted; after the last one nothing changes', async () => {
      await using opened = await open()
      const { steps } = opened
      const { session } = steps
      const waits = await steps.suspect(newEvent())
      expect(await session.fail([{ ...deferral, ...waits }])).toEqual(['recorded'])
      const known = await steps.known(waits.event)
      expect(known).toMatchObject({ kind: 'waiting', attempt: 0, alone: false })
      expect(known.kind === 'waiting' && known.remainingMs).toBeGreaterThan(50_000)
      const { event, token } = await steps.suspect(newEvent())
      expect(await session.fail([{ ...deferral, event, token, delayMs: 0 }])).toEqual(['recorded'])
      const second = await steps.countAlone(event)
      expect(second).toMatchObject({ attempt: 1 })
      // A run that is given back does not forget it.
      await session.release([{ event, token: second.token, as: 'given-back' }])
      const third = await steps.countAlone(event)
      expect(await session.fail([{ ...deferral, ...third, delayMs: 0 }])).toEqual(['recorded'])
      const last = await steps.countAlone(event)
      expect(await session.fail([{ ...deferral, ...last }])).toEqual(['spent'])
      expect(await steps.known(event)).toMatchObject({ kind: 'running', attempt: 1 })
      expect(await session.fail([{ ...failure, event, token: last.token }])).toEqual(['recorded'])
      expect(await steps.known(event)).toMatchObject({ kind: 'waiting', attempt: 1 })
    })

    it('after a clean run leaves a row without an attempt, and is lost to another owner', async () => {
      await using opened = await open()
      const { steps } = opened
      const { session } = steps
      const [event, done] = [newEvent(), newEvent()]
      await steps.commit(fresh(done))
      expect(
        await session.fail([
          { ...deferral, event, delayMs: 0 },
          { ...deferral, event: done },
        ]),
      ).toEqual(['recorded', 'lost'])
      expect(await steps.known(event)).toMatchObject({ kind: 'waiting', attempt: 0 })
      expect(await session.fail([{ ...deferral, event }])).toEqual(['lost'])
      const mine = await steps.countAlone(event)
      const strange = { ...deferral, event, token: strangeToken() }
      expect(await session.fail([strange])).toEqual(['lost'])
      await steps.commit(counted(mine))
      expect(await steps.known(event)).toMatchObject({ kind: 'done' })
    })
  })

  describe('a release', () => {
    it('deletes a first attempt, so that the event is new again', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event, token } = await steps.suspect(newEvent())
      expect(await steps.session.release([{ event, token, as: 'given-back' }])).toEqual([
        'recorded',
      ])
      expect(await steps.known(event)).toEqual({ kind: 'absent' })
    })

    // Red when a count forgets that the attempt before it had no verdict: a poison message that was given back would
    // run with others and kill them.
    it('makes a later attempt due now, and an event without a verdict runs alone until it has one', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event } = await steps.suspect(newEvent())
      const { token } = await steps.countAlone(event)
      await steps.session.release([{ event, token, as: 'given-back' }])
      const due = { kind: 'waiting', attempt: 1, remainingMs: 0, alone: true }
      expect(await steps.known(event)).toMatchObject(due)
      expect(await steps.session.count([event], 'together')).toEqual([{ kind: 'changed' }])
      const { token: second } = await steps.countAlone(event)
      await steps.session.release([{ event, token: second, as: 'given-back' }])
      expect(await steps.known(event)).toMatchObject(due)
      const again = await steps.countAlone(event)
      await steps.session.fail([{ ...again, error: new Error('no'), delayMs: 0 }])
      expect(await steps.known(event)).toMatchObject({ kind: 'waiting', attempt: 2, alone: false })
    })

    it('without a verdict makes the next run alone', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event, token } = await steps.suspect(newEvent())
      await steps.session.release([{ event, token, as: 'no-verdict' }])
      const due = { kind: 'waiting', attempt: 0, remainingMs: 0, alone: true }
      expect(await steps.known(event)).toMatchObject(due)
      expect(await steps.session.count([event], 'together')).toEqual([{ kind: 'changed' }])
    })

    it('with an unknown token changes nothing', async () => {
      await using opened = await open()
      const { steps } = opened
      const { event } = await steps.suspect(newEvent())
      const strange = { event, token: strangeToken(), as: 'given-back' } as const
      expect(await steps.session.release([strange])).toEqual(['lost'])
      expect(await steps.known(event)).toMatchObject({ kind: 'running', attempt: 1 })
    })
  })
}
