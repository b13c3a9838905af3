"""An operator before the Temporal Web UI: eyes and hands, nothing that a person could not see or do on the page."""

import time
from pathlib import Path

from playwright.async_api import FrameLocator, Locator, Page, expect

DETAILS = "#user-metadata-current-details"
SUMMARY = "#user-metadata-summary"
EDITOR = ".cm-content"
TALL = 2200
"""Pixels: the page scrolls inside itself, so a picture shows no more than the window does."""
WITHIN_S = 90.0
"""A list that doesn't show what it should within this fails the test."""
REFRESH_MS = 1000
"""As often as an impatient person refreshes a list."""


class Operator:
    """One person at one browser. Menus and dialogs are in the page twice, for two kinds of screens: only the visible counts."""

    def __init__(self, page: Page, ui: str, shots: Path | None = None) -> None:
        self.page = page
        self.ui = ui
        self.shots = shots
        self.seen = 0

    # The list

    async def opens_the_list(self, link: str = "/namespaces/default/workflows") -> None:
        """All workflows, or those of a bookmarked link."""
        await self.page.goto(self.ui + link)
        await expect(self.visible("workflow-count").first).to_be_visible()

    async def filters_by(self, attribute: str, value: str) -> None:
        """By the page's own filter."""
        await self.visible("add-filter-button").click()
        await self.visible("workflow-filter-search").fill(attribute)
        await self.role("menuitem", attribute).click()
        await self.visible(f"dropdown-filter-chip-{attribute}-0-text").fill(value)
        await self.role("button", "Apply").click()

    async def sees_one_workflow(self, prefix: str) -> str:
        """The id of the only one in the list; it starts with the prefix."""
        rows = self.visible("workflows-summary-configurable-table-row")
        await self.refreshes_until_one(rows)
        link = rows.locator("a", has_text=prefix).first
        await expect(link).to_be_visible()
        return (await link.inner_text()).strip()

    async def refreshes_until_one(self, rows: Locator) -> None:
        """The list doesn't refresh itself."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            try:
                return await expect(rows).to_have_count(1, timeout=REFRESH_MS)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            await self.role("button", "Refresh").click()

    async def opens(self, workflow_id: str) -> None:
        """By its link in the list; then the tab with what is proposed."""
        await self.page.locator("a:visible", has_text=workflow_id).first.click()
        await expect(self.visible("workflow-id-heading")).to_contain_text(workflow_id)
        await self.visible("user-metadata-tab").click()

    # A workflow

    @property
    def details(self) -> FrameLocator:
        """The current details, rendered."""
        return self.page.frame_locator(DETAILS)

    async def reads(self, *expected: str) -> str:
        """The current details' text, once all of this stands there."""
        body = self.details.locator("body")
        for text in expected:
            await expect(body).to_contain_text(text)
        return await body.inner_text()

    async def copies(self, containing: str) -> str:
        """The text of the code block with that in it, as a person would copy it."""
        return (await self.details.locator("pre", has_text=containing).inner_text()).strip()

    async def reads_summary(self) -> str:
        return (await self.page.frame_locator(SUMMARY).locator("body").inner_text()).strip()

    async def freshens(self) -> None:
        """The page says: press R. An ended workflow shows what it showed until then."""
        await self.page.keyboard.press("r")

    async def sees_status(self, status: str, within_ms: float) -> None:
        """Beside the workflow's name; that one the page refreshes by itself."""
        shown = self.visible("execution-status").first
        await expect(shown).to_contain_text(status, ignore_case=True, timeout=within_ms)

    # Sending

    async def starts_an_update(self) -> Locator:
        """The dialog, with the list of updates open."""
        await self.role("button", "More Actions").click()
        await self.role("menuitem", "Send an Update").click()
        await self.visible("update-select-button").click()
        return self.visible("update-confirmation-modal")

    async def chooses(self, name: str, described: str) -> None:
        """The update of that name, which says what to send."""
        option = self.role("option", name)
        await expect(option).to_contain_text(described)
        await option.click()

    async def writes(self, dialog: Locator, text: str) -> None:
        """The payload anew. Without the Tab the first click on Submit does nothing: the dialog grows as the JSON is laid out."""
        await dialog.locator(EDITOR).click()
        await self.page.keyboard.press("Control+A")
        await self.page.keyboard.insert_text(text)
        await self.page.keyboard.press("Tab")

    async def submits(self, dialog: Locator) -> None:
        await dialog.get_by_test_id("confirm-modal-button").click()

    async def is_refused(self, dialog: Locator, sentence: str) -> None:
        """The dialog stays open and says why, with these words and no others."""
        await expect(dialog.get_by_role("alert").filter(has_text=sentence)).to_have_text(sentence)

    async def cancels(self, dialog: Locator) -> None:
        await dialog.get_by_test_id("cancel-modal-button").click()
        await expect(dialog).to_be_hidden()

    # Looking

    def visible(self, test_id: str) -> Locator:
        return self.page.locator(f"[data-testid='{test_id}']:visible")

    def role(self, role: str, text: str) -> Locator:
        return self.page.locator(f"{role}:visible, [role={role}]:visible").filter(has_text=text).first

    async def looks(self, name: str, *, at_all_of_it: bool = False) -> None:
        """A picture of what is there now, for people who want to see it; at the whole page through a taller window."""
        self.seen += 1
        screen = self.page.viewport_size
        if not self.shots or not screen:
            return
        if at_all_of_it:
            await self.page.set_viewport_size({"width": screen["width"], "height": TALL})
        await self.page.screenshot(path=self.shots / f"{self.seen:02}-{name}.png")
        await self.page.set_viewport_size(screen)
