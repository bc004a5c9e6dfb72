package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type listClassesParams struct {
	atLeast
	Author syntax.AtIdentifier `param:"author"`
	Name   string              `param:"name"`
	Limit  int                 `param:"limit"`
	Cursor string              `param:"cursor"`
}

type listClassesOutput struct {
	freshness
	Cursor  string      `json:"cursor,omitempty"`
	Classes []classItem `json:"classes"`
}

func (a *Appview) listClasses(ctx context.Context, xv xrpc.Viewer, p listClassesParams) (*listClassesOutput, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	at, err := page("listClasses", p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	list, err := a.index.ListClasses(ctx, v, index.ClassFilter{DID: author, Name: p.Name}, at)
	if err != nil {
		return nil, err
	}
	list.Items = held(list.Items, classRecord)
	around, err := a.surroundings(ctx, v, each(list.Items, classRecord))
	if err != nil {
		return nil, err
	}
	return &listClassesOutput{
		Cursor: cursorOf("listClasses", list.Next),
		Classes: orEmpty(each(list.Items, func(c index.Class) classItem {
			return viewClassItem(c, around.findings(c.URI), around.actors)
		})),
	}, nil
}
