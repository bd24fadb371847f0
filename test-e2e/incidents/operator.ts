import { prometheus, until } from '@onceward/testing'
import type { Browser } from 'playwright-core'
import { expect } from 'vitest'
import { openPage } from '../../packages/onceward/src/fixtures/browser.ts'
import { served } from '../../packages/onceward/src/fixtures/served.ts'
import { impatientRules } from '../telemetry/impatient-rules.ts'
import { ask } from '../telemetry/queries.ts'
import { BUILT, printed, type Release } from './commands.ts'
import { type Chapter, chapterOf, normal, rewrite, type Session, shortened } from './document.ts'
import type { Servers, Shop } from './shop.ts'
import { type Screens, see } from './signs.ts'

/** `ONCEWARD_DOCS=write`: what the commands print is written into the document. */
const isWriting = process.env['ONCEWARD_DOCS'] === 'write'

/** Whoever is on call for a shop, with one chapter of docs/operations.md. */
export class Operator implements AsyncDisposable {
  readonly #chapter: Chapter
  readonly #left: Session[]
  readonly #shop: Shop
  readonly #screens: Screens
  readonly #stack: AsyncDisposable

  private constructor(chapter: Chapter, shop: Shop, screens: Screens, stack: AsyncDisposable) {
    this.#chapter = chapter
    this.#left = [...chapter.sessions]
    this.#shop = shop
    this.#screens = screens
    this.#stack = stack
  }

  /** A Prometheus with the rules of `ops/`, and the console in a browser. */
  static async reads(title: string, shop: Shop, browser: Browser): Promise<Operator> {
    await using starting = new AsyncDisposableStack()
    const rules = starting.use(await impatientRules())
    const targets = [shop.healthPort]
    const server = starting.use(await prometheus({ targets, rules: [rules.file] }))
    const { url } = starting.use(await served(shop.servers.databaseUrl))
    const { page } = await openPage(browser, url)
    starting.defer(() => page.context().close())
    const screens: Screens = {
      ...{ prometheus: ask(server.connection.url), console: page },
      traffic: () => shop.sendGood(),
    }
    return new Operator(chapterOf(title), shop, screens, starting.move())
  }

  /** Resolves when Prometheus has read the counters of the consumer: an increase before that is not seen. */
  async watches(): Promise<void> {
    const { lines } = this.#screens.prometheus
    await until(async () => (await lines('onceward_deliveries_total')).length > 0)
  }

  /** Resolves when everything is seen that the document names. */
  async sees(): Promise<void> {
    for (const sign of this.#chapter.signs) await see(sign, this.#screens)
  }

  /** Types the commands of the next terminal in the document. They must print what stands there. */
  async types(release: Release = BUILT): Promise<void> {
    const session = this.#left.shift()
    if (session === undefined) throw new Error(`${this.#chapter.title} has no further terminal`)
    let text = ''
    for (const command of session.commands) {
      text += `$ ${command}\n${await printed(command, release, this.#shop.environment)}`
    }
    const shown = shortened(withUsualNames(text, this.#shop.servers))
    if (isWriting) rewrite(this.#chapter, session, shown)
    else expect(normal(shown)).toBe(normal(session.text))
  }

  /** Resolves when no alert fires any more. Every terminal of the document must have been used. */
  async isDone(): Promise<void> {
    expect(this.#left).toEqual([])
    const isQuiet = async (): Promise<boolean> => {
      // An outage is over when the dependency is asked again.
      await this.#shop.work()
      return (await this.#screens.prometheus.firing()).length === 0
    }
    await until(isQuiet, { what: 'the end of all alerts', deadlineMs: 60_000, everyMs: 500 })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve(this.#stack[Symbol.asyncDispose]())
  }
}

/** Servers of a test have ports, databases and queues that nobody else has. */
function withUsualNames(output: string, { databaseUrl, queueUrl, redisUrl }: Servers): string {
  const last = (url: string): string => new URL(url).pathname.split('/').at(-1) ?? ''
  const names = [
    [new URL(databaseUrl).host, 'db:5432'],
    [last(databaseUrl), 'shop'],
    [new URL(queueUrl).host, 'sqs:9324'],
    [last(queueUrl), 'orders'],
    ...(redisUrl === undefined ? [] : [[new URL(redisUrl).host, 'redis:6379']]),
  ] as const
  return names.reduce((text, [name = '', usual = '']) => text.replaceAll(name, usual), output)
}
