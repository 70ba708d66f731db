package report

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page
var pageFiles embed.FS

// Page is a page for the browser, in one file that needs no network.
type Page struct {
	Title    string
	Lead     string // a paragraph under the title; "": none
	Sections []Section
}

// Section is a part of a page: what of it is set, in this order.
type Section struct {
	Title string
	Text  string // a paragraph
	Pre   string // text as a terminal shows it, such as Summary's table
	PNG   []byte // a picture
	HTML  template.HTML

	// Recording is shown as a timeline to explore.
	Recording *Recording
}

// WriteHTML writes the recording as a page for the browser: bytes by kind over operations, events or time, with phases
// shaded; the arena, address over time, where white is fragmentation; the largest tensors at the peak. Whatever the mouse
// points at is shown with its bytes, shape, dtype, op and scope, why it is alive, and when it dies.
func (r *Recording) WriteHTML(w io.Writer, title string) error {
	return WriteHTML(w, Page{Title: title, Sections: []Section{{Recording: r}}})
}

// WriteHTML writes a page. It is an error if a recording does not fit together.
func WriteHTML(w io.Writer, p Page) error {
	v := pageView{Title: p.Title, Lead: p.Lead}
	for i, s := range p.Sections {
		sv := sectionView{Title: s.Title, Text: s.Text, Pre: s.Pre, HTML: s.HTML}
		if len(s.PNG) > 0 {
			sv.Image = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(s.PNG))
		}
		if s.Recording != nil {
			d, err := s.Recording.pageData()
			if err != nil {
				return err
			}
			text, err := json.Marshal(d) // which writes < as \u003c: it cannot end the script
			if err != nil {
				return fmt.Errorf("report: html: %w", err)
			}
			sv.Data = &dataView{fmt.Sprintf("recording-%d", i+1), template.JS(text)}
		}
		v.Sections = append(v.Sections, sv)
	}
	var script strings.Builder
	for _, name := range []string{"data.js", "draw.js", "timeline.js"} {
		script.WriteString(pageFile(name))
	}
	v.Style, v.Script = template.CSS(pageFile("page.css")), template.JS(script.String())
	if err := pageTemplate.Execute(w, &v); err != nil {
		return fmt.Errorf("report: html: %w", err)
	}
	return nil
}

var pageTemplate = template.Must(template.New("page").Parse(pageFile("page.html")))

// pageFile is a file that is compiled in.
func pageFile(name string) string {
	b, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		panic("report: " + err.Error())
	}
	return string(b)
}

// The page as the template sees it.
type (
	pageView struct {
		Title, Lead string
		Sections    []sectionView
		Style       template.CSS
		Script      template.JS
	}
	sectionView struct {
		Title, Text, Pre string
		Image            template.URL
		HTML             template.HTML
		Data             *dataView
	}
	dataView struct {
		ID   string
		JSON template.JS
	}
)
