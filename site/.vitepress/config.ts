import { posix, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type DefaultTheme,
  defineConfig,
  type MarkdownOptions,
  type Plugin,
  type UserConfig,
} from 'vitepress'
import llmstxt from 'vitepress-plugin-llms'
import { anchorOf, pageOf, SECTIONS } from '../pages.ts'
import { browserCore } from '../playground/bundle.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const REPOSITORY = 'https://github.com/onceward/onceward'

/** A link to a document goes to its page. A link to a file that is no page goes to the repository. */
function siteLink(href: string, from: string): string {
  if (/^(?:[a-z]+:|#|\/)/i.test(href)) return href
  const [path = '', anchor] = href.split('#')
  const file = posix.join(posix.dirname(from), path)
  const page = pageOf(file)
  const target = page === undefined ? `${REPOSITORY}/blob/main/${file}` : `/${page}`
  return anchor === undefined ? target : `${target}#${anchor}`
}

const markdown: MarkdownOptions = {
  anchor: { slugify: anchorOf },
  config(md) {
    md.core.ruler.push('links', ({ env, tokens }) => {
      const from = relative(root, env.realPath ?? env.path)
      for (const { children } of tokens) {
        for (const token of children ?? []) {
          const href = token.type === 'link_open' ? token.attrGet('href') : null
          if (href !== null) token.attrSet('href', siteLink(decodeURI(href), from))
        }
      }
    })
  },
}

/** The pages are outside of this folder, where no Vue is installed. */
const vueFromHere: Plugin = {
  name: 'vue-from-here',
  enforce: 'pre',
  resolveId(id, _importer, { ssr }) {
    if (id !== 'vue' && id !== 'vue/server-renderer') return null
    return ssr === true
      ? { id, external: true }
      : this.resolve(id, fileURLToPath(new URL('../index.md', import.meta.url)), { skipSelf: true })
  },
}

const sidebar: DefaultTheme.SidebarItem[] = [
  ...SECTIONS.map(({ pages, title }) => ({
    text: title,
    collapsed: false,
    items: pages.map(([page, text]) => ({ text, link: `/${page}` })),
  })),
  { text: 'API reference', link: '/reference/' },
]

const themeConfig: DefaultTheme.Config = {
  nav: [
    { text: 'Playground', link: '/' },
    { text: 'Start', link: '/start' },
    { text: 'Guarantees', link: '/guarantees' },
    { text: 'API', link: '/reference/' },
  ],
  sidebar,
  outline: [2, 3],
  search: { provider: 'local' },
  socialLinks: [{ icon: 'github', link: REPOSITORY }],
  editLink: { pattern: `${REPOSITORY}/edit/main/:path` },
}

const config: UserConfig<DefaultTheme.Config> = defineConfig({
  title: 'onceward',
  description: 'Exactly-once effects on at-least-once brokers, for TypeScript',
  lang: 'en',
  base: process.env['SITE_BASE'] ?? '/',
  srcDir: '..',
  // Only what is a page. The folders beside it are not looked at, which is quicker.
  srcExclude: [
    '{api,bench,examples,mutation,ops,packages,scripts,test-e2e}/**',
    '.*/**',
    'docs/samples/**',
  ],
  rewrites: (file) => pageOf(file) ?? file,
  outDir: './dist',
  cleanUrls: false,
  markdown,
  themeConfig,
  vite: {
    plugins: [browserCore(), vueFromHere, llmstxt()],
    publicDir: fileURLToPath(new URL('../public', import.meta.url)),
    // The sources ask for a target that this esbuild does not know yet.
    esbuild: { tsconfigRaw: { compilerOptions: { target: 'es2022', verbatimModuleSyntax: true } } },
    build: { chunkSizeWarningLimit: 2_500 },
  },
})

export default config
