// `npm run site` ends with this: every link inside of the site leads to a page, and to a heading of it.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const dist = fileURLToPath(new URL('dist', import.meta.url))
const base = process.env['SITE_BASE'] ?? '/'
const pages = readdirSync(dist, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.html'))
  .map((file) => file.replaceAll('\\', '/'))
const texts = new Map(pages.map((page) => [page, readFileSync(join(dist, page), 'utf8')]))

const idsOf = (text: string): ReadonlySet<string> =>
  new Set([...text.matchAll(/\sid="([^"]+)"/g)].map(([, id = '']) => id))
const ids = new Map([...texts].map(([page, text]) => [page, idsOf(text)]))

/** The file that a link leads to, and the heading in it. */
function targetOf(href: string, page: string): { readonly file: string; readonly id: string } {
  const [path = '', id = ''] = decodeURI(href).split('#')
  const inside = path.startsWith(base) ? path.slice(base.length) : undefined
  const file = path === '' ? page : (inside ?? posix.join(posix.dirname(page), path))
  return { file: file === '' || file.endsWith('/') ? `${file}index.html` : file, id }
}

const dead = [...texts].flatMap(([page, text]) =>
  [...text.matchAll(/<(?:a|img)\s[^>]*?(?:href|src)="([^"]+)"/g)]
    .map(([, href = '']) => href)
    .filter((href) => !/^(?:[a-z]+:|\/\/)/i.test(href))
    .filter((href) => {
      const { file, id } = targetOf(href, page)
      return !existsSync(join(dist, file)) || (id !== '' && ids.get(file)?.has(id) === false)
    })
    .map((href) => `${page}: ${href}`),
)
for (const line of new Set(dead)) console.error(`dead link in ${line}`)
console.log(`${pages.length} pages, ${dead.length} dead links`)
process.exitCode = dead.length === 0 && pages.length > 0 ? 0 : 1
