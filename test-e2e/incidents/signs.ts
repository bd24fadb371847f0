import { until } from '@onceward/testing'
import type { Page } from 'playwright-core'
import { PANELS } from '../../ops/dashboard.ts'
import type { Asked } from '../telemetry/queries.ts'
import { normal, type Sign } from './document.ts'

/** What an operator looks at. */
export interface Screens {
  readonly prometheus: Asked
  readonly console: Page
  /** Called before each look: rates are those of messages that come meanwhile. */
  traffic(): Promise<void>
}

const DEADLINE_MS = 60_000
const EVERY_MS = 300

/** Resolves when everything that the document names is seen. */
export async function see(sign: Sign, screens: Screens): Promise<void> {
  const { absent, place, texts, where } = sign
  if (texts.length + absent.length === 0) throw new Error(`${where} ${place} names nothing to see`)
  const wait = (text: string, isThere: boolean): Promise<boolean> =>
    until(
      async () => {
        await screens.traffic()
        return (await shows(sign, text, screens)) === isThere
      },
      {
        what: `${where} ${place}: ${isThere ? '' : 'no '}${text}`,
        ...{ deadlineMs: DEADLINE_MS, everyMs: EVERY_MS },
      },
    )
  for (const text of texts) await wait(text, true)
  for (const text of absent) await wait(text, false)
}

function shows({ place, where }: Sign, text: string, screens: Screens): Promise<boolean> {
  switch (where) {
    case 'Alert':
      return screens.prometheus.firing().then((names) => names.includes(text))
    case 'Dashboard':
      return draws(place, text, screens)
    case 'Console':
      return writes(place, text, screens)
    default:
      return where satisfies never
  }
}

/** A line of a panel is told by its legend. */
async function draws(title: string, legend: string, { prometheus }: Screens): Promise<boolean> {
  const panel = PANELS.find((each) => each.title === title)
  if (panel === undefined) throw new Error(`the dashboard has no panel “${title}”`)
  for (const { expr, legend: template } of panel.queries)
    for (const { labels, value } of await prometheus.lines(expr)) {
      const shown = template.replaceAll(/\{\{(\w+)\}\}/g, (_, name) => labels[name] ?? '')
      if (value > 0 && normal(shown) === normal(legend)) return true
    }
  return false
}

/** Opens the page anew: some pages ask once. */
async function writes(name: string, text: string, { console: page }: Screens): Promise<boolean> {
  const links = page.getByRole('navigation')
  await links.getByRole('link', { name: name === 'Event' ? 'Waiting' : 'Event' }).click()
  await links.getByRole('link', { name }).click()
  await page.locator('main h2, main .error').first().waitFor()
  // biome-ignore lint/performance/useDomNodeTextContent: what is hidden is not seen
  return normal(await page.locator('body').innerText()).includes(normal(text))
}
